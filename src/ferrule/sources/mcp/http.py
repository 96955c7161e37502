"""HTTP for MCP with bounds: no answer over a limit is held, and what failed is told apart. The one owner of httpx2.

Whatever keeps a request from being answered comes back as a JSON-RPC error of ours, so that one failure does not tear
down the connection: surely not delivered (nobody listens there, or the request was refused unread), gone (it was sent
and no answer came), too large.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from typing import Any

import httpx2

from ferrule.core.json_text import dumps
from ferrule.sources.mcp.config import Endpoint
from ferrule.sources.mcp.results import GONE, NOT_SENT, TOO_LARGE

ErrorOf = Callable[[int, str], dict[str, Any]]
_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_REFUSED_UNREAD = {401: "it wants other credentials", 403: "it does not allow this", 429: "it has too much to do"}
_SESSION = "mcp-session-id"


def client_for(
    reach: Endpoint, connect_seconds: float, most_bytes: int, error_of: ErrorOf, trouble: Callable[[], None]
) -> httpx2.AsyncClient:
    """A client whose answers are bounded. `trouble` is told when the server cannot be reached or forgot us."""
    transport = _Bounded(_proxy_for(reach.url), most_bytes, error_of, trouble)
    # Answers take as long as tools take: the call's own deadline ends it, not a timer on the socket.
    timeout = httpx2.Timeout(connect_seconds, read=None)
    # Not compressed: a small body that unpacks to a large one would pass under the limit.
    return httpx2.AsyncClient(
        headers={**reach.headers, "accept-encoding": "identity"}, timeout=timeout, transport=transport
    )


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, proxy: str | None, most_bytes: int, error_of: ErrorOf, trouble: Callable[[], None]) -> None:
        self._inner = httpx2.AsyncHTTPTransport(proxy=proxy)
        self._most = most_bytes
        self._error_of = error_of
        self._trouble = trouble

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except _UNREACHED as error:
            self._trouble()
            return self._failed(request, NOT_SENT, f"the server cannot be reached ({type(error).__name__})")
        except httpx2.TransportError as error:
            self._trouble()
            return self._failed(request, GONE, f"the server went away ({type(error).__name__})")
        if request.method != "POST" or response.status_code == 202:
            return response
        return await self._bounded(request, response)

    async def _bounded(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        status, kind = response.status_code, response.headers.get("content-type", "").lower()
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return self._failed(request, GONE, "its answer is compressed, which was not asked for")
        if status < 400 and kind.startswith("text/event-stream"):
            return response
        body = await self._read(response)
        if isinstance(body, tuple):
            return self._failed(request, *body)
        if kind.startswith("application/json") and b'"jsonrpc"' in body:
            return httpx2.Response(status, headers=response.headers, content=body, request=request)
        if status == 404 and _SESSION in request.headers:
            self._trouble()
            return self._failed(request, NOT_SENT, "the server has forgotten the session")
        if status in _REFUSED_UNREAD:
            return self._failed(request, NOT_SENT, f"the server refused ({status}): {_REFUSED_UNREAD[status]}")
        if status >= 500:
            # A proxy may say this after it has passed the request on.
            return self._failed(request, GONE, f"the server failed ({status})")
        return httpx2.Response(status, headers=response.headers, content=body, request=request)

    async def _read(self, response: httpx2.Response) -> bytes | tuple[int, str]:
        parts: list[bytes] = []
        size = 0
        try:
            async for part in response.aiter_raw():
                size += len(part)
                if size > self._most:
                    return TOO_LARGE, f"the answer is larger than {self._most} bytes and was not read"
                parts.append(part)
        except httpx2.TransportError as error:
            self._trouble()
            return GONE, f"the answer broke off ({type(error).__name__})"
        finally:
            await response.aclose()
        return b"".join(parts)

    def _failed(self, request: httpx2.Request, code: int, told: str) -> httpx2.Response:
        content = dumps({"jsonrpc": "2.0", "id": None, "error": self._error_of(code, told)})
        return httpx2.Response(502, headers={"content-type": "application/json"}, content=content, request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _proxy_for(url: str) -> str | None:
    parsed = httpx2.URL(url)
    if urllib.request.proxy_bypass(parsed.host):
        return None
    return urllib.request.getproxies().get(parsed.scheme)
