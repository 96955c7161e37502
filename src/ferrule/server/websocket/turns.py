"""Turns: the running and resumable turns of this process, by id and principal. Independent of the sockets.

A turn that loses its connection runs on for `resume_seconds` and is then stopped; a turn that has ended can be read for
the same time. Turns belong to one process: a client that reconnects to another one gets `turn_not_found`.
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
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.dialects.frames.server_frames import StartedFrame
from ferrule.dialects.openai_chat.request_decoder import read_request as read_openai
from ferrule.errors import NotFoundError
from ferrule.server.answer.plan import ToolOwner, shows_wire, turn_of
from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.config.config import MEGABYTE
from ferrule.server.gateway import Gateway
from ferrule.server.websocket.encoder import error_frame
from ferrule.server.websocket.frame_log import FrameLog, LogReader
from ferrule.server.websocket.turn import LiveTurn

_REQUEST_DECODERS: dict[str, Callable[[dict[str, object]], ToolCallRequest]] = {
    "openai": read_openai,
    "anthropic": read_anthropic,
}
_MAX_BYTES = 256 * MEGABYTE
"""The maximum size of the logs of all ended turns. Beyond it, the oldest of these turns are dropped early."""


@dataclass(slots=True)
class Turns:
    gateway: Gateway
    limiter: Limiter
    max_bytes: int = _MAX_BYTES
    _turns: dict[str, LiveTurn] = field(default_factory=dict[str, LiveTurn])
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    """The tasks of the running turns."""
    _timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict[str, asyncio.TimerHandle])
    """The timers of turns that have no reader or have ended."""

    def begin(self, frame: AskFrame, principal: Principal, limit_name: str = "") -> LiveTurn:
        """Start a new turn, counted under the name of a key's limits. An invalid request raises before it exists."""
        gateway = self.gateway
        gateway.telemetry.drain.check("models")
        request = replace(_REQUEST_DECODERS[frame.api](frame.body), shows_wire=shows_wire(frame.body))
        request = gateway.sort_options(request)
        turn = turn_of(frame.body, request, principal, has_tools=gateway.has_tools(principal))
        model = gateway.engine(request.model, principal).model
        conversation = turn.conversation if turn.tool_owner is ToolOwner.GATEWAY else ""
        with ExitStack() as stack:
            self.limiter.count_request(limit_name)
            stack.enter_context(self.limiter.slot(limit_name))
            log = FrameLog(f"turn_{secrets.token_hex(16)}", gateway.config.limits.resume_bytes, frame.spelling)
            live = LiveTurn(gateway, turn, log)
            self._turns[live.id] = live
            gateway.telemetry.record_ignored(request.ignored)
            owner, ignored = turn.tool_owner.value, request.ignored or None
            coroutine = live.run(StartedFrame(owner, request.model or model, conversation, frame.ref, ignored=ignored))
            task = asyncio.ensure_future(gateway.telemetry.run_busy(coroutine))
            self._tasks[live.id] = task
            task.add_done_callback(partial(self._finish, live, stack.pop_all()))
        return live

    def find(self, id: str, principal: Principal) -> LiveTurn:
        """Return a turn. Another principal's turn is reported as missing."""
        live = self._turns.get(id)
        if live is None or not _is_same(live.turn.principal, principal):
            raise NotFoundError(
                "there is no such turn", code="turn_not_found", hint="It may have ended too long ago: start a new turn."
            )
        return live

    def read(self, live: LiveTurn, after: int, wake: Callable[[], None]) -> LogReader:
        """Attach a connection as the reader of a turn."""
        reader = live.log.attach(after, wake)
        if live.id in self._tasks:
            self._stop_timer(live.id)
        return reader

    def detach(self, reader: LogReader) -> None:
        """Detach the reader of a closed connection."""
        log = reader.log
        log.detach(reader)
        if not reader.is_replaced and log.turn in self._turns and log.turn not in self._timers:
            self._start_timer(log.turn)

    def wake(self, approval: str) -> None:
        """Wake the turns that wait for this approval."""
        for live in self._turns.values():
            if approval in live.pending_approvals:
                live.wake()

    async def close(self) -> None:
        """Stop all turns. Those in the ledger can be resumed."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for id in list(self._timers):
            self._stop_timer(id)
        self._turns.clear()

    def _finish(self, live: LiveTurn, places: ExitStack, task: asyncio.Task[None]) -> None:
        places.close()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            live.log.add(error_frame(self.gateway.telemetry.handle_unexpected(error, live.id)))
        live.log.end()
        del self._tasks[live.id]
        if live.id in self._turns and live.id not in self._timers:
            self._start_timer(live.id)
        self._free_space()

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

    def _free_space(self) -> None:
        ended = [live for live in self._turns.values() if live.log.is_ended]
        total_bytes = sum(live.log.bytes for live in ended)
        for live in ended:
            if total_bytes <= self.max_bytes:
                return
            total_bytes -= live.log.bytes
            self._forget(live.id)


def _is_same(one: Principal, other: Principal) -> bool:
    return (one.tenant, one.name) == (other.tenant, other.name)
