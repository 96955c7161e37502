"""HTTP to an engine: JSON, and streams of bytes, under deadlines. The one owner of aiohttp. Must not know any API.

A request is sent again only where nothing was delivered: the connection was refused, or the engine said that it is
busy. Once a byte of an answer has come, a failure is the caller's to see. Closing a stream closes its connection, which
is how engines learn that nobody is listening any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ferrule.core.json_text import loads
from ferrule.engines.deadlines import Waits
from ferrule.errors import EngineError, EngineTimeoutError, EngineUnavailableError, UnsupportedError

if TYPE_CHECKING:
    import aiohttp

_Given = TypeVar("_Given")
# 529 is Anthropic's word for overloaded.
_BUSY = (429, 503, 529)
_MOST_ERROR_TEXT = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds. `first` is until the first byte of an answer, `between` until the next, `total` for all of it."""

    connect: float = 10.0
    first: float = 300.0
    between: float = 120.0
    total: float = 3600.0
    tries: int = 3
    pause: float = 0.5


PATIENT = Deadlines()


@dataclass(slots=True)
class Http:
    """One engine's address. `headers` go with every request."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    deadlines: Deadlines = PATIENT
    _sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = field(
        default_factory=dict["asyncio.AbstractEventLoop", "aiohttp.ClientSession"]
    )
    """One for each loop that asks: a program may use an engine both ways, synchronously and not."""

    async def get(self, path: str) -> Any:
        return await self._json("GET", path, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._json("POST", path, body)

    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """The bytes of an answer as they come."""
        # Counted here and not by one timeout around it all: that would cancel whoever reads, amid other work.
        until = time.monotonic() + self.deadlines.total
        response = await self._within(self.deadlines.total, self._opened("POST", path, body))
        waits = Waits()
        try:
            while chunk := await self._read(response, waits, until):
                yield chunk
        finally:
            waits.close()
            response.close()

    async def _read(self, response: aiohttp.ClientResponse, waits: Waits, until: float) -> bytes:
        seconds = min(self.deadlines.between, max(until - time.monotonic(), 0.0))
        waits.begin(seconds)
        try:
            return await response.content.readany()
        except asyncio.CancelledError as cancelled:
            waits.ended(cancelled)
            raise self._late(seconds) from cancelled
        except _library().ClientPayloadError as broken:
            raise self._broken() from broken
        finally:
            waits.end()

    async def close(self) -> None:
        here = asyncio.get_running_loop()
        for loop, session in self._sessions.items():
            if loop is here:
                await session.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(session.close(), loop))
        self._sessions.clear()

    async def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        response = await self._opened(method, path, body)
        try:
            text = await self._within(self.deadlines.total, response.text())
        finally:
            response.close()
        try:
            return loads(text)
        except ValueError as damage:
            raise EngineError(f"{self.base}{path} answered with something that is not JSON: {text[:80]!r}") from damage

    async def _opened(self, method: str, path: str, body: Mapping[str, Any] | None) -> aiohttp.ClientResponse:
        """An answer whose head has come and is good."""
        refusal: EngineError | None = None
        for attempt in range(self.deadlines.tries):
            if attempt:
                await asyncio.sleep(self.deadlines.pause * 2 ** (attempt - 1))
            try:
                response = await self._sent(method, path, body)
            except EngineUnavailableError as unreachable:
                refusal = unreachable
                continue
            if response.status < 400:
                return response
            refusal = await self._refusal(path, response)
            if response.status not in _BUSY:
                break
        raise refusal or EngineUnavailableError(f"{self.base} was not asked")

    async def _sent(self, method: str, path: str, body: Mapping[str, Any] | None) -> aiohttp.ClientResponse:
        aiohttp = _library()
        try:
            try:
                return await self._requested(method, path, body)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                # A connection that was kept from before, and that the other side had given up meanwhile.
                return await self._requested(method, path, body)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as failure:
            raise EngineUnavailableError(
                f"{self.base} cannot be reached: {failure}", hint="Is the engine running, and at this address?"
            ) from failure
        except aiohttp.ClientError as failure:
            raise EngineError(f"{self.base}{path}: {failure}") from failure

    async def _requested(self, method: str, path: str, body: Mapping[str, Any] | None) -> aiohttp.ClientResponse:
        asking = self._connected().request(method, self.base + path, json=body)
        return await self._within(self.deadlines.first, asking)

    async def _refusal(self, path: str, response: aiohttp.ClientResponse) -> EngineError:
        try:
            text = (await self._within(self.deadlines.between, response.text()))[:_MOST_ERROR_TEXT]
        finally:
            response.close()
        if response.status in _BUSY:
            return EngineUnavailableError(f"{self.base}{path} is busy ({response.status}): {text}")
        return EngineError(f"{self.base}{path} answered {response.status}: {text}", code="engine_refused")

    async def _within(self, seconds: float, work: Awaitable[_Given]) -> _Given:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as late:
            raise self._late(seconds) from late
        except _library().ClientPayloadError as broken:
            raise self._broken() from broken

    def _late(self, seconds: float) -> EngineTimeoutError:
        return EngineTimeoutError(f"{self.base} said nothing for {seconds:g} seconds")

    def _broken(self) -> EngineError:
        return EngineError(f"{self.base} broke off in the middle of its answer", code="broken_off")

    def _connected(self) -> aiohttp.ClientSession:
        aiohttp = _library()
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.deadlines.connect)
            connector = aiohttp.TCPConnector(limit=0)
            session = aiohttp.ClientSession(headers=self.headers, timeout=timeout, connector=connector)
            self._sessions[loop] = session
        return session


def _library() -> Any:
    try:
        import aiohttp
    except ImportError as missing:
        raise UnsupportedError(
            "engines over HTTP need aiohttp", code="missing_package", hint='pip install "ferrule[http]"'
        ) from missing
    return cast("Any", aiohttp)
