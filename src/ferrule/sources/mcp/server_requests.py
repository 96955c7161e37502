"""ServerRequests: what one MCP server asks of its client during a call: a person's input, or a model's answer.

It finds out which call a request belongs to. In the protocol of 2026-07-28 the request is part of the call's answer;
before, the server sends it by itself, and if several calls run nothing says which one it belongs to.

While a request waits, the time limits of the calls stand still. If the connection is lost, nobody needs the answer any
more: the callback is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from ferrule.core.context import CallContext
from ferrule.errors import FerruleError, UnsupportedError
from ferrule.sources.mcp.config import Server
from ferrule.sources.mcp.elicitation import Elicit, ElicitAnswer, Elicitation, answer_to
from ferrule.sources.mcp.sampling import Sample, Sampler, read_request

_T = TypeVar("_T")
CURRENT_CALL: ContextVar[CallContext | None] = ContextVar("CURRENT_CALL", default=None)
"""The call in whose task this runs."""


class ConnectionLostError(FerruleError):
    """The server is gone, and nobody wants the answer any more."""

    code = "connection_lost"


@dataclass(slots=True)
class ServerRequests:
    """`running` are the calls of the server, as its session has them; `lost` is set when the connection has ended."""

    server: Server
    elicit: Elicit
    sampler: Sampler
    running: list[CallContext]
    lost: asyncio.Event

    async def answer(self, message: str, schema: Mapping[str, Any], url: str = "") -> ElicitAnswer:
        """Ask for a person's input. Without an answer, the server gets `cancel`."""
        callers = self._callers()
        context = callers[0] if len(callers) == 1 else None
        question = Elicitation(self.server.name, message, schema, url, context, callers)
        try:
            return await self._wait(answer_to(question, self.elicit), callers)
        except ConnectionLostError:
            return ElicitAnswer("cancel")

    async def sample(self, params: Mapping[str, Any]) -> Sample:
        """Ask for a model's answer. Raises a `FerruleError` if there is none."""
        if self.server.sampling is None:
            raise UnsupportedError("sampling is off for this server", hint='Set "sampling" in its entry in mcp.json.')
        callers = self._callers()
        return await self._wait(self._sample(params, callers), callers)

    async def _sample(self, params: Mapping[str, Any], callers: tuple[CallContext, ...]) -> Sample:
        assert self.server.sampling is not None
        return await self.sampler(read_request(self.server.name, params, self.server.sampling, callers))

    def _callers(self) -> tuple[CallContext, ...]:
        current = CURRENT_CALL.get()
        return tuple(self.running) if current is None else (current,)

    async def _wait(self, work: Coroutine[Any, Any, _T], callers: tuple[CallContext, ...]) -> _T:
        with ExitStack() as pauses:
            for caller in callers:
                pauses.enter_context(caller.pause())
            working = asyncio.ensure_future(work)
            losing = asyncio.ensure_future(self.lost.wait())
            try:
                await asyncio.wait((working, losing), return_when=asyncio.FIRST_COMPLETED)
                if not working.done():
                    raise ConnectionLostError("the server is not connected any more")
                return await working
            finally:
                await _cancel(working, losing)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    waiting: Awaitable[Any] = asyncio.gather(*tasks, return_exceptions=True)
    await waiting
