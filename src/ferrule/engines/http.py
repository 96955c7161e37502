"""HttpClient: JSON requests and byte streams to an engine, with deadlines. The only module that uses aiohttp.

A request is retried only if nothing was delivered: the connection was refused, or the engine said that it is busy. Once
a byte of an answer has arrived, a failure goes to the caller. Closing a stream closes its connection, which tells the
engine to stop generating. Must not know any API.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

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

    By default there is no limit for all of an answer: a slow engine that sends something is at work.
    `tries` is how often a request is sent at most, `pause` the seconds before the first retry, doubled for each one.
    """

    connect: float = 10.0
    first: float = 300.0
    between: float = 300.0
    total: float = math.inf
    tries: int = 3
    pause: float = 0.5


DEFAULT_DEADLINES = Deadlines()
SILENT_FIRST = 1800.0
"""`Deadlines.first` for servers that send nothing while they read a prompt, like one that hangs."""
SILENT_DEADLINES = Deadlines(first=SILENT_FIRST)


@dataclass(slots=True, weakref_slot=True)
class HttpClient:
    """A client for one engine's address. `headers` are sent with every request."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    deadlines: Deadlines = DEFAULT_DEADLINES
    _sessions: dict[tuple[asyncio.AbstractEventLoop, bool], aiohttp.ClientSession] = field(
        default_factory=dict["tuple[asyncio.AbstractEventLoop, bool]", "aiohttp.ClientSession"]
    )
    """By event loop, since a program may use an engine both synchronously and asynchronously, and by whether each of
    its requests opens a connection."""

    async def get(self, path: str) -> Any:
        return await self._json("GET", path, None)

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        return await self._json("POST", path, body, headers)

    def stream(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> ByteStream:
        """Return the bytes of an answer as they arrive. The request is sent when they are first read."""
        return ByteStream(self, path, body, headers)

    async def open_response(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response once its status is known to be good."""
        return await self._with_timeout(self.deadlines.total, self._open("POST", path, body, headers))

    async def close(self) -> None:
        here = asyncio.get_running_loop()
        for (loop, _), session in self._sessions.items():
            if loop is here:
                await session.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(session.close(), loop))
        self._sessions.clear()

    async def _json(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None = None
    ) -> Any:
        response = await self._open(method, path, body, headers)
        try:
            text = await self._with_timeout(min(self.deadlines.first, self.deadlines.total), response.text())
        finally:
            response.close()
        try:
            return loads(text)
        except ValueError as damage:
            raise EngineError(
                f"{self.base}{path} did not answer with JSON: {self.hide_credentials(text)[:80]!r}"
            ) from damage

    async def _open(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> aiohttp.ClientResponse:
        """Send a request, with retries, and return the response once its status is known to be good."""
        refusal: EngineError | None = None
        for attempt in range(self.deadlines.tries):
            if attempt:
                await asyncio.sleep(self.deadlines.pause * 2 ** (attempt - 1))
            try:
                response = await self._send(method, path, body, headers)
            except EngineUnavailableError as unreachable:
                refusal = unreachable
                continue
            if response.status < 400:
                return response
            refusal = await self._refusal(path, response)
            if response.status not in _BUSY:
                break
        raise refusal or EngineUnavailableError(f"{self.base} was not contacted: deadlines.tries is 0")

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> aiohttp.ClientResponse:
        aiohttp = _import_aiohttp()
        try:
            try:
                return await self._request(method, path, body, headers)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                # A pooled connection that the server had closed in the meantime. The others may be closed too.
                return await self._request(method, path, body, headers, is_fresh=True)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as failure:
            raise EngineUnavailableError(
                f"{self.base} cannot be reached: {failure}", hint="Check that the engine is running at this address."
            ) from failure
        except aiohttp.ClientError as failure:
            raise EngineError(f"{self.base}{path}: {failure}") from failure

    async def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        *,
        is_fresh: bool = False,
    ) -> aiohttp.ClientResponse:
        request = self._session(is_fresh=is_fresh).request(method, self.base + path, json=body, headers=headers)
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
            raise self.timeout_error(seconds) from late
        except _import_aiohttp().ClientPayloadError as broken:
            raise self.broken_off_error() from broken

    def timeout_error(self, seconds: float) -> EngineTimeoutError:
        return EngineTimeoutError(f"{self.base} sent nothing for {seconds:g} seconds")

    def broken_off_error(self) -> EngineError:
        # "connection lost": inside a stream there is no status, and agents decide by such words whether to ask again.
        return EngineError(
            f"connection lost: {self.base} closed the connection in the middle of its answer", code="broken_off"
        )

    def _session(self, *, is_fresh: bool) -> aiohttp.ClientSession:
        aiohttp = _import_aiohttp()
        loop = asyncio.get_running_loop()
        session = self._sessions.get((loop, is_fresh))
        if session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.deadlines.connect)
            connector = aiohttp.TCPConnector(limit=0, force_close=is_fresh)
            session = aiohttp.ClientSession(headers=self.headers, timeout=timeout, connector=connector)
            self._sessions[loop, is_fresh] = session
            release_with(self, loop, session.close)
        return session


class _ReadTimeoutError(Exception):
    """Ends a read of a stream that takes too long."""


class ByteStream:
    """The bytes of one answer as they arrive, in pieces. Closing it closes the connection.

    It is an iterator and not a generator, because each nested generator costs every event once more.
    """

    __slots__ = (
        "_between",
        "_body",
        "_content",
        "_deadline",
        "_has_data",
        "_headers",
        "_http",
        "_path",
        "_response",
        "_timer",
    )

    def __init__(
        self, http: HttpClient, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        self._http = http
        self._path = path
        self._body = body
        self._headers = headers
        self._between = http.deadlines.between
        self._deadline = 0.0
        self._has_data = False
        self._response: aiohttp.ClientResponse | None = None
        self._content: aiohttp.StreamReader | None = None
        self._timer: DeadlineTimer | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data

    async def read(self) -> bytes:
        """Return what has arrived, as soon as there is something; empty at the end."""
        content, timer = self._content, self._timer
        if content is None or timer is None:
            content, timer = await self._open()
        # The total is computed here: one timeout around the whole stream would cancel its reader in the middle of other
        # work.
        # Servers may send the head of an answer at once and then read the prompt.
        silence = self._between if self._has_data else max(self._http.deadlines.first, self._between)
        seconds = min(silence, max(self._deadline - time.monotonic(), 0.0))
        timer.start(seconds)
        try:
            data = await content.readany()
        except _ReadTimeoutError as late:
            await self.aclose()
            raise self._http.timeout_error(seconds) from late
        # Whatever ends the stream, also a cancellation: the connection is closed.
        except BaseException as error:
            await self.aclose()
            if isinstance(error, _import_aiohttp().ClientPayloadError):
                raise self._http.broken_off_error() from error
            raise
        timer.stop()
        self._has_data = True
        if not data:
            await self.aclose()
        return data

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.close()
        if self._response is not None:
            self._response.close()

    async def _open(self) -> tuple[aiohttp.StreamReader, DeadlineTimer]:
        self._deadline = time.monotonic() + self._http.deadlines.total
        self._response = await self._http.open_response(self._path, self._body, self._headers)
        content = self._content = self._response.content
        # The reader gets the error as if it had arrived: that needs no task to be cancelled.
        timer = self._timer = DeadlineTimer(lambda: content.set_exception(_ReadTimeoutError()))
        return content, timer


def _import_aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError as missing:
        raise UnsupportedError(
            "engines over HTTP need aiohttp", code="missing_package", hint='pip install "ferrule[http]"'
        ) from missing
    return cast("Any", aiohttp)
