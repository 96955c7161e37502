"""An HTTP client for MCP that limits the size of responses and classifies failures. The only module that uses httpx2.

A failed request returns a JSON-RPC error of our own instead of raising, so that one failure does not close the
connection. The error says whether the request was certainly not delivered (no server, or it was refused unread), the
connection was lost (sent, but not answered), or the response was too large.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from typing import Any

import httpx2

from ferrule.core.json_text import dumps
from ferrule.sources.mcp.config import HttpTransport
from ferrule.sources.mcp.results import CONNECTION_LOST, NOT_SENT, TOO_LARGE

ErrorOf = Callable[[int, str], dict[str, Any]]
_CONNECT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_REFUSALS = {401: "wrong credentials", 403: "not allowed", 429: "too many requests"}
_SESSION = "mcp-session-id"


def client_for(
    endpoint: HttpTransport, connect_seconds: float, max_bytes: int, error_of: ErrorOf, on_failure: Callable[[], None]
) -> httpx2.AsyncClient:
    """A client that limits response size. `on_failure` is called if the server is unreachable or lost the session."""
    transport = _BoundedTransport(_proxy_for(endpoint.url), max_bytes, error_of, on_failure)
    # A response takes as long as the tool runs. The call's deadline ends it, not a socket timeout.
    timeout = httpx2.Timeout(connect_seconds, read=None)
    # No compression: a small body could decompress to one above the limit.
    return httpx2.AsyncClient(
        headers={**endpoint.headers, "accept-encoding": "identity"}, timeout=timeout, transport=transport
    )


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, proxy: str | None, max_bytes: int, error_of: ErrorOf, on_failure: Callable[[], None]) -> None:
        self._inner = httpx2.AsyncHTTPTransport(proxy=proxy)
        self._max_bytes = max_bytes
        self._error_of = error_of
        self._on_failure = on_failure

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except _CONNECT_ERRORS as error:
            self._on_failure()
            return self._error_response(request, NOT_SENT, f"the server cannot be reached ({type(error).__name__})")
        except httpx2.TransportError as error:
            self._on_failure()
            return self._error_response(
                request, CONNECTION_LOST, f"the connection to the server was lost ({type(error).__name__})"
            )
        if request.method != "POST" or response.status_code == 202:
            return response
        return await self._check_response(request, response)

    async def _check_response(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        status, kind = response.status_code, response.headers.get("content-type", "").lower()
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return self._error_response(
                request, CONNECTION_LOST, "the server sent a compressed response without being asked"
            )
        if status < 400 and kind.startswith("text/event-stream"):
            return response
        body = await self._read(response)
        if isinstance(body, tuple):
            return self._error_response(request, *body)
        if kind.startswith("application/json") and b'"jsonrpc"' in body:
            return httpx2.Response(status, headers=response.headers, content=body, request=request)
        if status == 404 and _SESSION in request.headers:
            self._on_failure()
            return self._error_response(request, NOT_SENT, "the server has forgotten the session")
        if status in _REFUSALS:
            return self._error_response(request, NOT_SENT, f"the server refused ({status}): {_REFUSALS[status]}")
        if status >= 500:
            # A proxy may send this after it has forwarded the request.
            return self._error_response(request, CONNECTION_LOST, f"the server failed ({status})")
        return httpx2.Response(status, headers=response.headers, content=body, request=request)

    async def _read(self, response: httpx2.Response) -> bytes | tuple[int, str]:
        parts: list[bytes] = []
        size = 0
        try:
            async for part in response.aiter_raw():
                size += len(part)
                if size > self._max_bytes:
                    return TOO_LARGE, f"the answer is larger than {self._max_bytes} bytes and was not read"
                parts.append(part)
        except httpx2.TransportError as error:
            self._on_failure()
            return CONNECTION_LOST, f"the answer broke off ({type(error).__name__})"
        finally:
            await response.aclose()
        return b"".join(parts)

    def _error_response(self, request: httpx2.Request, code: int, message: str) -> httpx2.Response:
        content = dumps({"jsonrpc": "2.0", "id": None, "error": self._error_of(code, message)})
        return httpx2.Response(502, headers={"content-type": "application/json"}, content=content, request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _proxy_for(url: str) -> str | None:
    parsed = httpx2.URL(url)
    if urllib.request.proxy_bypass(parsed.host):
        return None
    return urllib.request.getproxies().get(parsed.scheme)
