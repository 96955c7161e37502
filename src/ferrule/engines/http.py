"""HttpClient: JSON requests and byte streams to an engine, with deadlines. The only module that uses aiohttp.

A request is retried only if nothing was delivered: the connection was refused, or the engine said that it is busy. Once
a byte of an answer has arrived, a failure goes to the caller. Closing a stream closes its connection, which tells the
engine to stop generating. Must not know any API.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ferrule.core.json_text import loads
from ferrule.engines.deadlines import DeadlineTimer
from ferrule.engines.refusal import refusal_of
from ferrule.engines.sync import release_with
from ferrule.errors import EngineError, EngineTimeoutError, EngineUnavailableError, UnsupportedError

if TYPE_CHECKING:
    import aiohttp

_T = TypeVar("_T")
# 529 is Anthropic's status for an overloaded service.
_BUSY = (429, 503, 529)
_MAX_ERROR_TEXT = 600
_MIN_SECRET_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Timeouts in seconds: `first` until the first byte of an answer, `between` until the next, `total` for all of it.

    `tries` is how often a request is sent at most, `pause` the seconds before the first retry, doubled for each one.
    """

    connect: float = 10.0
    first: float = 300.0
    between: float = 120.0
    total: float = 3600.0
    tries: int = 3
    pause: float = 0.5


DEFAULT_DEADLINES = Deadlines()


@dataclass(slots=True, weakref_slot=True)
class HttpClient:
    """A client for one engine's address. `headers` are sent with every request."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    deadlines: Deadlines = DEFAULT_DEADLINES
    _sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = field(
        default_factory=dict["asyncio.AbstractEventLoop", "aiohttp.ClientSession"]
    )
    """One per event loop: a program may use an engine both synchronously and asynchronously."""

    async def get(self, path: str) -> Any:
        return await self._json("GET", path, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._json("POST", path, body)

    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an answer as they arrive."""
        # The total is computed here: one timeout around the whole stream would cancel its reader in the middle of other
        # work.
        deadline = time.monotonic() + self.deadlines.total
        response = await self._with_timeout(self.deadlines.total, self._open("POST", path, body))
        timer = DeadlineTimer()
        try:
            while chunk := await self._read(response, timer, deadline):
                yield chunk
        finally:
            timer.close()
            response.close()

    async def _read(self, response: aiohttp.ClientResponse, timer: DeadlineTimer, deadline: float) -> bytes:
        seconds = min(self.deadlines.between, max(deadline - time.monotonic(), 0.0))
        timer.start(seconds)
        try:
            return await response.content.readany()
        except asyncio.CancelledError as cancelled:
            timer.reraise_unless_expired(cancelled)
            raise self._timeout_error(seconds) from cancelled
        except _import_aiohttp().ClientPayloadError as broken:
            raise self._broken_off_error() from broken
        finally:
            timer.stop()

    async def close(self) -> None:
        here = asyncio.get_running_loop()
        for loop, session in self._sessions.items():
            if loop is here:
                await session.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(session.close(), loop))
        self._sessions.clear()

    async def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        response = await self._open(method, path, body)
        try:
            text = await self._with_timeout(self.deadlines.total, response.text())
        finally:
            response.close()
        try:
            return loads(text)
        except ValueError as damage:
            raise EngineError(
                f"{self.base}{path} did not answer with JSON: {self.hide_credentials(text)[:80]!r}"
            ) from damage

    async def _open(self, method: str, path: str, body: Mapping[str, Any] | None) -> aiohttp.ClientResponse:
        """Send a request, with retries, and return the response once its status is known to be good."""
        refusal: EngineError | None = None
        for attempt in range(self.deadlines.tries):
            if attempt:
                await asyncio.sleep(self.deadlines.pause * 2 ** (attempt - 1))
            try:
                response = await self._send(method, path, body)
            except EngineUnavailableError as unreachable:
                refusal = unreachable
                continue
            if response.status < 400:
                return response
            refusal = await self._refusal(path, response)
            if response.status not in _BUSY:
                break
        raise refusal or EngineUnavailableError(f"{self.base} was not contacted: deadlines.tries is 0")

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> aiohttp.ClientResponse:
        aiohttp = _import_aiohttp()
        try:
            try:
                return await self._request(method, path, body)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                # A pooled connection that the server had closed in the meantime.
                return await self._request(method, path, body)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as failure:
            raise EngineUnavailableError(
                f"{self.base} cannot be reached: {failure}", hint="Check that the engine is running at this address."
            ) from failure
        except aiohttp.ClientError as failure:
            raise EngineError(f"{self.base}{path}: {failure}") from failure

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> aiohttp.ClientResponse:
        request = self._session().request(method, self.base + path, json=body)
        return await self._with_timeout(self.deadlines.first, request)

    async def _refusal(self, path: str, response: aiohttp.ClientResponse) -> EngineError:
        try:
            text = (await self._with_timeout(self.deadlines.between, response.text()))[:_MAX_ERROR_TEXT]
        finally:
            response.close()
        return refusal_of(
            f"{self.base}{path}", response.status, self.hide_credentials(text), response.headers.get("Retry-After", "")
        )

    def hide_credentials(self, text: str) -> str:
        """Mask the credentials that this client sends: some services quote the key that they refuse."""
        for value in self.headers.values():
            secret = value.rpartition(" ")[2]
            if len(secret) >= _MIN_SECRET_LENGTH:
                text = text.replace(secret, "***")
        return text

    async def _with_timeout(self, seconds: float, work: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as late:
            raise self._timeout_error(seconds) from late
        except _import_aiohttp().ClientPayloadError as broken:
            raise self._broken_off_error() from broken

    def _timeout_error(self, seconds: float) -> EngineTimeoutError:
        return EngineTimeoutError(f"{self.base} sent nothing for {seconds:g} seconds")

    def _broken_off_error(self) -> EngineError:
        # "connection lost": inside a stream there is no status, and agents decide by such words whether to ask again.
        return EngineError(
            f"connection lost: {self.base} closed the connection in the middle of its answer", code="broken_off"
        )

    def _session(self) -> aiohttp.ClientSession:
        aiohttp = _import_aiohttp()
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.deadlines.connect)
            connector = aiohttp.TCPConnector(limit=0)
            session = aiohttp.ClientSession(headers=self.headers, timeout=timeout, connector=connector)
            self._sessions[loop] = session
            release_with(self, loop, session.close)
        return session


def _import_aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError as missing:
        raise UnsupportedError(
            "engines over HTTP need aiohttp", code="missing_package", hint='pip install "ferrule[http]"'
        ) from missing
    return cast("Any", aiohttp)
