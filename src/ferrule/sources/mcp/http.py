"""An HTTP client for MCP that limits the size of responses and classifies failures. The only module that uses httpx2.

A failed request returns a JSON-RPC error of our own instead of raising, so that one failure does not close the
connection. The error says whether the request was certainly not delivered (no server, or it was refused unread), the
connection was lost (sent, but not answered), or the response was too large.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx2

from ferrule.core.json_text import dumps, loads
from ferrule.sources.mcp.config import HttpTransport
from ferrule.sources.mcp.results import CONNECTION_LOST, NOT_SENT, TOO_LARGE

if TYPE_CHECKING:
    from ferrule.sources.mcp.oauth import SignIn

ErrorOf = Callable[[int, str], dict[str, Any]]
_CONNECT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_REFUSALS = {401: "wrong credentials", 403: "not allowed", 429: "too many requests"}
_SESSION = "mcp-session-id"
_CLOSING_SECONDS = 5.0
_MAX_METADATA = 1_000_000
LOGIN_NEEDED = "it wants you to sign in"


def client_for(
    endpoint: HttpTransport,
    connect_seconds: float,
    max_bytes: int,
    error_of: ErrorOf,
    on_failure: Callable[[], None],
    sign_in: SignIn | None = None,
    on_login_needed: Callable[[], None] = lambda: None,
) -> httpx2.AsyncClient:
    """A client that limits response size. `on_failure` is called if the server is unreachable or lost the session.

    `sign_in` adds the server's token; `on_login_needed` is called if a person has to sign in first.
    """
    inner: httpx2.AsyncBaseTransport = httpx2.AsyncHTTPTransport(proxy=_proxy_for(endpoint.url))
    if sign_in is not None:
        inner = _AuthorizedTransport(inner, sign_in, connect_seconds, on_login_needed)
    transport = _BoundedTransport(inner, max_bytes, error_of, on_failure)
    # A response takes as long as the tool runs. The call's deadline ends it, not a socket timeout.
    timeout = httpx2.Timeout(connect_seconds, read=None)
    # No compression: a small body could decompress to one above the limit.
    return httpx2.AsyncClient(
        headers={**endpoint.headers, "accept-encoding": "identity"}, timeout=timeout, transport=transport
    )


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(
        self, inner: httpx2.AsyncBaseTransport, max_bytes: int, error_of: ErrorOf, on_failure: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._error_of = error_of
        self._on_failure = on_failure

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except _SignInError as error:
            self._on_failure()
            return self._error_response(request, NOT_SENT, str(error))
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


class _SignInError(Exception):
    """The request was not sent, because signing in failed."""


class _AuthorizedTransport(httpx2.AsyncBaseTransport):
    """Adds the server's token, renews it, and signs in again where the server wants that.

    The SDK would hold its lock for as long as a request takes, so that one long call would stop all others. Here a
    request with a valid token takes no lock, and the SDK's flow runs only to get a token. Whatever goes wrong before
    the request itself is sent is a `_SignInError`: the server has not seen the call.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        sign_in: SignIn,
        connect_seconds: float,
        on_login_needed: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._sign_in = sign_in
        self._on_login_needed = on_login_needed
        # For requests to the authorization server, which may be behind another proxy. The SDK judges redirects.
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(connect_seconds), headers={"accept-encoding": "identity"}
        )
        self._refreshing: asyncio.Task[bool] | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sign_in = self._sign_in
        await self._prepare(sign_in.restore())
        if not sign_in.is_valid and sign_in.can_refresh:
            try:
                await self._refresh("")
            except _SignInError:
                # It is renewed early: while the authorization server is away, the old token is good until it expires.
                if not sign_in.token:
                    raise
        used = sign_in.token
        response = await self._send(request)
        if not _is_challenge(response):
            return response
        response = await _read_whole(response, request)
        if response.status_code == 401 and sign_in.can_refresh and await self._refresh(used):
            # A new token that is refused too is no reason for a new sign-in: a tool may pass on a 401 of its own.
            return await self._send(request)
        if response.status_code == 403:
            await self._prepare(sign_in.want_scope(response.headers.get("www-authenticate", "")))
        if sign_in.may_continue:
            return await self._sign_in_again(request, response)
        if response.status_code == 403:
            raise _SignInError(f"it wants more rights than it was given: {sign_in.login_hint}")
        self._on_login_needed()
        raise _SignInError(LOGIN_NEEDED)

    async def _prepare(self, work: Awaitable[None]) -> None:
        try:
            await work
        # A store may be a file, a database or whatever an application passes in: without it, nothing is sent.
        except Exception as error:
            raise _SignInError(f"its tokens cannot be used: {error!s:.200}") from error

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        token = self._sign_in.token
        if token:
            request.headers["authorization"] = f"Bearer {token}"
        return await self._inner.handle_async_request(request)

    async def _refresh(self, used: str) -> bool:
        """Get a new token, unless another process has: then `used` is not the one that is kept.

        A call that is cancelled does not cancel this: the server may have replaced the refresh token already, and a
        second use of the old one would end the grant.
        """
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(self._refresh_once(used))
            # Every caller may have been cancelled: then nobody reads how it ended.
            self._refreshing.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._refreshing)

    async def _refresh_once(self, used: str) -> bool:
        sign_in = self._sign_in
        try:
            async with sign_in.lock():
                await sign_in.restore(is_forced=True)
                if sign_in.is_valid and sign_in.token != used:
                    return True
                if not sign_in.can_refresh:
                    return False
                sign_in.expire()
                # Only the first part of the flow, which renews the token; the request stands for one to the server.
                request = httpx2.Request("GET", "http://127.0.0.1/")
                flow = sign_in.auth.async_auth_flow(request)
                try:
                    outgoing = await anext(flow)
                    while outgoing is not request:
                        outgoing = await flow.asend(await self._ask(outgoing))
                finally:
                    await flow.aclose()
                if not sign_in.is_valid:
                    await sign_in.forget_tokens()
                return sign_in.is_valid
        except _SignInError:
            raise
        # As above, and the SDK raises errors of its own and of Pydantic: no token was got.
        except Exception as error:
            raise _SignInError(f"its token could not be renewed: {sign_in.describe(error)}") from error

    async def _sign_in_again(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        flow = self._sign_in.auth.async_auth_flow(request)
        is_answered = False
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request:
                    outgoing = await flow.asend(await self._ask(outgoing))
                    continue
                # The first time, the answer is the one that wants a sign-in.
                response = response if not is_answered else await self._inner.handle_async_request(request)
                is_answered = True
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return response
        except (httpx2.TransportError, _SignInError):
            raise
        # The SDK raises errors of its own, of Pydantic and others. Whichever it is, no token was got.
        except Exception as error:
            raise _SignInError(f"signing in failed: {self._sign_in.describe(error)}") from error
        finally:
            await flow.aclose()

    async def _ask(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to an authorization server, and read a bounded answer."""
        if self._sign_in.refuses_address(str(request.url)):
            raise _SignInError(
                f"signing in failed: the server names an address that is not allowed ({request.url.host})"
            )
        try:
            response = await self._client.send(request, stream=True, auth=None, follow_redirects=False)
            answer = await _read_whole(response, request)
        except httpx2.TransportError as error:
            raise _SignInError(f"the authorization server cannot be reached ({type(error).__name__})") from error
        answer.next_request = response.next_request
        self._sign_in.note_answer(answer.status_code, answer.content)
        if b"grant_type=refresh_token" in request.content and not _decides(answer):
            # Only a refusal may cost the refresh token, and this is none.
            raise _SignInError(f"the authorization server failed ({answer.status_code}); trying again later")
        return answer

    async def aclose(self) -> None:
        if self._refreshing is not None and not self._refreshing.done():
            await asyncio.wait({self._refreshing}, timeout=_CLOSING_SECONDS)
        await self._client.aclose()
        await self._inner.aclose()


async def _read_whole(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    """Read an answer about a sign-in; a long one is none."""
    parts, size = list[bytes](), 0
    try:
        async for part in response.aiter_raw():
            size += len(part)
            if size > _MAX_METADATA:
                raise _SignInError("signing in failed: an answer is too large")
            parts.append(part)
    finally:
        await response.aclose()
    return httpx2.Response(response.status_code, headers=response.headers, content=b"".join(parts), request=request)


def _decides(answer: httpx2.Response) -> bool:
    """Whether an answer to a refresh is a token or a refusal (RFC 6749, 5.2), and not an outage or another's page."""
    try:
        document: object = loads(answer.text)
    except (ValueError, RecursionError):
        return False
    expected = {200: "access_token", 400: "error", 401: "error"}.get(answer.status_code)
    return isinstance(document, dict) and expected in document


def _is_challenge(response: httpx2.Response) -> bool:
    wants_more = response.status_code == 403 and "insufficient_scope" in response.headers.get("www-authenticate", "")
    return response.status_code == 401 or wants_more


def _proxy_for(url: str) -> str | None:
    parsed = httpx2.URL(url)
    if urllib.request.proxy_bypass(parsed.host):
        return None
    return urllib.request.getproxies().get(parsed.scheme)
