"""LiveTurn: one answer over a WebSocket, with as many rounds as it needs, even while no client is connected.

If the gateway runs the calls, a turn that waits for approval continues after the decision, made here or by another
process. If the caller runs them, it continues when every call has its result.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ferrule.core.call import ToolResult
from ferrule.core.event import FinishReason
from ferrule.core.message import ChatMessage, Role
from ferrule.core.request import ChoiceMode, ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import visible, visible_text
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import CallerResultFrame, ConfirmFrame
from ferrule.dialects.frames.server_frames import ConfirmationFrame, ToolInfo
from ferrule.errors import AuthorityError, DefinitionError, EngineTimeoutError, FerruleError, NotFoundError
from ferrule.run.events import ConfirmationRequired, LoopEnded, ToolProgressed
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.machine import State
from ferrule.server.answer.claim import store_turn
from ferrule.server.answer.plan import ToolOwner, Turn
from ferrule.server.answer.stream import AnswerStream
from ferrule.server.gateway import Gateway
from ferrule.server.http import Request
from ferrule.server.tools.approval_decision import ApprovalDecision, record_decision
from ferrule.server.websocket.encoder import FrameEncoder, RawFrameEncoder, caller_call, error_frame
from ferrule.server.websocket.frame_log import FrameLog


def confirmation_frame(approval: Approval, call_id: str, tool: ToolDefinition | None) -> ConfirmationFrame:
    """Return the frame for the person who decides. It comes from the ledger, and from the tool if it is unchanged."""
    info = ToolInfo(approval.tool, approval.tool_fingerprint, side_effects=True)
    if tool is not None and tool.fingerprint == approval.tool_fingerprint:
        # An MCP server wrote the description, which may contain hidden characters too.
        description = visible(tool.description)
        info = replace(info, description=description, side_effects=tool.side_effects, parameters=dict(tool.parameters))
    return ConfirmationFrame(
        approval.id,
        call_id,
        info,
        visible_text(approval.arguments),
        approval.arguments_sha256,
        len(approval.arguments),
        approval.principal,
        approval.conversation,
        approval.expires_at,
    )


async def decide(gateway: Gateway, request: Request, confirm: ConfirmFrame) -> Approval:
    """Approve or deny a call, once. Arguments that do not match the tool's schema are refused without a decision."""
    if "approve" not in request.rights:
        raise AuthorityError(
            f"{request.principal.name} may not approve calls", hint="Use a key with the approve right."
        )
    # Approval ids are printable ASCII. Not every database accepts other text; one of them raises an error for it.
    is_plain = confirm.approval.isascii() and confirm.approval.isprintable()
    approval = await gateway.ledger.approval(confirm.approval) if is_plain else None
    if approval is None or approval.tenant != request.principal.tenant:
        raise NotFoundError("there is no such approval", code="approval_unknown", hint="See confirmation_required.")
    decision = ApprovalDecision(confirm.approve, confirm.why, confirm.arguments)
    return await record_decision(gateway, approval, request.principal.name, decision)


_API = "/v1/stream"
_POLL_SECONDS = 1.0
"""How often to check the ledger for a decision that was made elsewhere."""
_RESULT_SECONDS = 3600.0
"""How long a client may take for the result of a call, where `limits.total_seconds` does not limit its turn."""


@dataclass(slots=True)
class LiveTurn:
    """`run` it once, as a task. Then add results to its calls, `wake` it after a decision, or `cancel` it."""

    gateway: Gateway
    turn: Turn
    log: FrameLog
    pending_approvals: set[str] = field(default_factory=set[str])
    """The approvals that were requested and, as far as this process knows, are not decided."""
    _encoder: FrameEncoder = field(init=False)
    _announced_approvals: set[str] = field(default_factory=set[str])
    _open_calls: dict[str, str] = field(default_factory=dict[str, str])
    """The names of the tools of the calls that the caller runs, by call id."""
    _results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _is_cancelled: bool = False

    def __post_init__(self) -> None:
        self._encoder = (RawFrameEncoder if self.turn.request.shows_wire else FrameEncoder)(self.turn.tool_owner)

    @property
    def id(self) -> str:
        return self.log.turn

    async def run(self, started: out.StartedFrame) -> None:
        self._task = asyncio.current_task()
        self.log.add(started)
        try:
            async with asyncio.timeout(self.gateway.config.limits.total_seconds or None):
                limit = await (
                    self._run_in_gateway() if self.turn.tool_owner is ToolOwner.GATEWAY else self._run_for_caller()
                )
            self.log.add(self._encoder.done_frame(limit))
        except TimeoutError:
            timeout_error = EngineTimeoutError("the answer took too long", hint="Request less, or raise the limits.")
            self.log.add(error_frame(timeout_error))
        except FerruleError as error:
            self.gateway.telemetry.record_error(error)
            self.log.add(error_frame(error))
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
            self.log.add(replace(self._encoder.done_frame(), finish_reason="cancelled"))

    def cancel(self) -> None:
        """Stop the engine and the tools. The last frame reports it."""
        # Only once: a second cancellation would interrupt the cleanup of the first.
        if self._task is not None and not self._is_cancelled and not self.log.is_ended:
            self._is_cancelled = True
            self._task.cancel()

    def wake(self) -> None:
        """Wake the turn: something that it may wait for has happened."""
        self._wakeup.set()

    def waits_for(self, call_id: str) -> bool:
        """Whether the caller still has to send the result of this call."""
        return call_id in self._open_calls and call_id not in self._results

    def add_result(self, frame: CallerResultFrame) -> None:
        """Add the result of one of the caller's calls."""
        if frame.id not in self._open_calls:
            raise NotFoundError(
                "no call with this id is waiting for a result", code="call_not_found", hint="See tool_call."
            )
        if frame.id in self._results:
            raise DefinitionError("this call already has its result", code="call_answered", hint="Send each once.")
        name, media = self._open_calls[frame.id], frame.media or ()
        self._results[frame.id] = ToolResult(frame.id, name, frame.content, frame.is_error, media=media)
        self.wake()

    async def _run_for_caller(self) -> str:
        request = self.turn.request
        while True:
            self._open_calls, self._results = {}, {}
            end = await self._stream_round(replace(self.turn, request=request))
            reply = self._encoder.reply
            if not reply.calls or self._encoder.reason is FinishReason.LENGTH:
                return end.reason
            while len(self._results) < len(reply.calls):
                self._wakeup.clear()
                async with asyncio.timeout(_RESULT_SECONDS):
                    await self._wakeup.wait()
            results = tuple(self._results[call.id] for call in reply.calls)
            request = _next_round_request(request, reply.as_message(), ChatMessage(Role.TOOL, results))

    async def _run_in_gateway(self) -> str:
        turn = await store_turn(self.gateway, self.turn, _API)
        while True:
            end = await self._stream_round(turn)
            if end.state is not State.WAITING:
                return end.reason
            await self._wait_for_decision()
            turn = replace(turn, resumes=turn.resumes or turn.conversation)

    async def _stream_round(self, turn: Turn) -> LoopEnded:
        """Send the frames of an answer until it ends."""
        end = LoopEnded(State.DONE)
        async with aclosing(AnswerStream(self.gateway, turn)) as events:
            async for event in events:
                for frame in self._encoder.feed(event):
                    self._send(frame)
                if isinstance(event, ConfirmationRequired):
                    await self._request_approval(event)
                elif isinstance(event, ToolProgressed) and event.progress.approval:
                    await self._show_question(event.call_id, event.progress.approval)
                elif isinstance(event, LoopEnded):
                    end = event
                if self.log.is_full:
                    await self.log.wait_for_space()
        return end

    def _send(self, frame: out.ServerFrame) -> None:
        call = caller_call(frame)
        if call is not None:
            # Registered before it is sent: the result may arrive while the model writes the next call.
            self._open_calls[call.id] = call.name
        self.log.add(frame)

    async def _request_approval(self, event: ConfirmationRequired) -> None:
        self.pending_approvals.add(event.approval)
        approval = await self.gateway.ledger.approval(event.approval)
        if approval is not None and approval.id not in self._announced_approvals:
            # A loop that resumes requests pending approvals again.
            self._announced_approvals.add(approval.id)
            self._send(
                confirmation_frame(approval, event.call.id, self.gateway.tool_catalog.tools.get(event.call.name))
            )

    async def _show_question(self, call_id: str, id: str) -> None:
        """Send what a server asks while a call runs. The call waits for the decision, and the turn for the call."""
        approval = await self.gateway.ledger.approval(id) if id not in self._announced_approvals else None
        if approval is not None and approval.tenant == self.turn.principal.tenant:
            self._announced_approvals.add(id)
            self._send(confirmation_frame(approval, call_id, None))

    async def _wait_for_decision(self) -> None:
        """Wait until one of the approvals is decided or has expired."""
        while True:
            self._wakeup.clear()
            for id in sorted(self.pending_approvals):
                approval = await self.gateway.ledger.approval(id)
                if approval and (approval.state is not ApprovalState.PENDING or approval.expires_at <= time.time()):
                    self.pending_approvals.discard(id)
                    return
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._wakeup.wait()
            except TimeoutError:
                continue


def _next_round_request(request: ToolCallRequest, *messages: ChatMessage) -> ToolCallRequest:
    """Return the request of the next round. A required call was made; requiring it again would never end."""
    choice = request.tool_choice
    if choice.mode is ChoiceMode.REQUIRED:
        choice = replace(choice, mode=ChoiceMode.AUTO)
    return replace(request, messages=(*request.messages, *messages), tool_choice=choice)
