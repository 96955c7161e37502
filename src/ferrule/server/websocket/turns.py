"""Turns: those that are under way or may be come back to, by id and by whom. Knows no socket.

A turn whose connection is lost lives on for `resume_seconds`, and then is stopped; one that has ended can be read for
as long. They are of this process: a client that comes back to another one is told that there is no such turn.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from ferrule.core.context import Principal
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.anthropic.request_decoder import read_request as read_anthropic
from ferrule.dialects.frames.client_frames import Ask
from ferrule.dialects.frames.server_frames import Started
from ferrule.dialects.openai_chat.request_decoder import read_request as read_openai
from ferrule.errors import NotFoundError
from ferrule.server.answer.turn import ToolOwner, shows_wire, turn_of
from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.config.config import MEGABYTE
from ferrule.server.gateway import Gateway, new_conversation
from ferrule.server.websocket.encoder import failed
from ferrule.server.websocket.frame_log import FrameLog, Reading
from ferrule.server.websocket.turn import LiveTurn

_READ: dict[str, Callable[[dict[str, object]], ToolCallRequest]] = {"openai": read_openai, "anthropic": read_anthropic}
_MOST_BYTES = 256 * MEGABYTE
"""Of the frames of all turns that have ended; beyond it the oldest of these turns are forgotten before their time."""


@dataclass(slots=True)
class Turns:
    gateway: Gateway
    limiter: Limiter
    most_bytes: int = _MOST_BYTES
    _turns: dict[str, LiveTurn] = field(default_factory=dict[str, LiveTurn])
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    """Of the turns under way."""
    _timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict[str, asyncio.TimerHandle])
    """Of the turns that nobody reads, or that have ended."""

    def begin(self, ask: Ask, principal: Principal) -> LiveTurn:
        """A new turn. What cannot be asked is refused here, before there is one."""
        gateway = self.gateway
        gateway.watch.drain.check("models")
        request = replace(_READ[ask.api](ask.body), shows_wire=shows_wire(ask.body))
        turn = turn_of(ask.body, request, principal, has_tools=gateway.has_tools(principal))
        model = gateway.engine(request, principal).model
        held = ""
        if turn.tool_owner is ToolOwner.GATEWAY:
            held = turn.resumes or new_conversation()
            turn = turn.held_in(held)
        with ExitStack() as stack:
            key = principal.name if gateway.config.keys else ""
            self.limiter.count(key)
            stack.enter_context(self.limiter.place(key))
            live = LiveTurn(
                gateway, turn, FrameLog(f"turn_{secrets.token_hex(16)}", gateway.config.limits.resume_bytes)
            )
            self._turns[live.id] = live
            running = live.run(Started(turn.tool_owner.value, request.model or model, held, ask.ref))
            task = asyncio.ensure_future(gateway.watch.engaged(running))
            self._tasks[live.id] = task
            task.add_done_callback(partial(self._ended, live, stack.pop_all()))
        return live

    def found(self, id: str, principal: Principal) -> LiveTurn:
        """Somebody else's turn is as if it were not there."""
        live = self._turns.get(id)
        if live is None or not _is_same(live.turn.principal, principal):
            raise NotFoundError(
                "there is no such turn", code="turn_not_found", hint="It may have ended too long ago: ask anew."
            )
        return live

    def read(self, live: LiveTurn, after: int, wake: Callable[[], None]) -> Reading:
        """From now on this connection reads the turn."""
        reading = live.log.attach(after, wake)
        if live.id in self._tasks:
            self._stop_timer(live.id)
        return reading

    def left(self, reading: Reading) -> None:
        """The connection is gone."""
        log = reading.log
        log.detach(reading)
        if not reading.is_lost and log.turn in self._turns and log.turn not in self._timers:
            self._start_timer(log.turn)

    def stir(self, approval: str) -> None:
        """Something was decided on."""
        for live in self._turns.values():
            if approval in live.waits_for:
                live.stir()

    async def close(self) -> None:
        """Everything under way is stopped. What the ledger holds of it can be gone on with."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for id in list(self._timers):
            self._stop_timer(id)
        self._turns.clear()

    def _ended(self, live: LiveTurn, places: ExitStack, task: asyncio.Task[None]) -> None:
        places.close()
        fault = None if task.cancelled() else task.exception()
        if isinstance(fault, Exception):
            live.log.add(failed(self.gateway.watch.unexpected(fault, live.id)))
        live.log.end()
        del self._tasks[live.id]
        if live.id in self._turns and live.id not in self._timers:
            self._start_timer(live.id)
        self._make_room()

    def _start_timer(self, id: str) -> None:
        seconds = self.gateway.config.limits.resume_seconds
        self._timers[id] = asyncio.get_running_loop().call_later(seconds, self._forget, id)

    def _stop_timer(self, id: str) -> None:
        timer = self._timers.pop(id, None)
        if timer is not None:
            timer.cancel()

    def _forget(self, id: str) -> None:
        self._stop_timer(id)
        self._turns.pop(id, None)
        if id in self._tasks:
            self._tasks[id].cancel()

    def _make_room(self) -> None:
        ended = [live for live in self._turns.values() if live.log.is_ended]
        held = sum(live.log.bytes for live in ended)
        for live in ended:
            if held <= self.most_bytes:
                return
            held -= live.log.bytes
            self._forget(live.id)


def _is_same(one: Principal, other: Principal) -> bool:
    return (one.tenant, one.name) == (other.tenant, other.name)
