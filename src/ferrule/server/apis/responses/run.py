"""ResponseRun: runs one stored response in this process, independent of any client's connection.

It holds the lease on the response's conversation, drives the gateway and writes the events. If this process dies,
another one creates a run from the ledger and continues; events that were written stay valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.context import Principal
from ferrule.core.message import ChatMessage, Text, messages_as_json, messages_from_json
from ferrule.core.reply import Reply, ReplyFold, ReplyPart
from ferrule.dialects.openai_responses.client_tools import CALL_KINDS, ClientTool, written_call
from ferrule.dialects.openai_responses.open_item import Events
from ferrule.engines.engine import Engine
from ferrule.errors import DrainingError, FencedError, FerruleError, LedgerUnavailableError
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import LoopEnded
from ferrule.run.lease import Lease
from ferrule.run.ledger.ledger import ApprovalState, ResponseRecord, ResponseStatus
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.machine import State
from ferrule.server.answer.confirming_executor import executor_of
from ferrule.server.answer.plan import ToolOwner, Turn
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.answer.stream import AnswerStream, conversation_options
from ferrule.server.apis.responses.encoder import ResponseEventLog
from ferrule.server.apis.responses.loop_events import LoopEventEncoder
from ferrule.server.gateway import Gateway

# Another process has the lease, the ledger cannot be written, or this process is stopping. Another process continues
# from what is written.
_LEASE_LOST = (FencedError, LedgerUnavailableError, DrainingError)


@dataclass(slots=True)
class ResponseRun:
    """`principal` is the owner of the response, with their current rights."""

    gateway: Gateway
    record: ResponseRecord
    resume_record: ResumeRecord
    principal: Principal
    lease: Lease
    loop_encoder: LoopEventEncoder
    event_log: ResponseEventLog
    earlier_parts: tuple[ReplyPart, ...] = ()
    """Complete texts and caller's calls from earlier owners of the response."""
    error: FerruleError | None = None
    answer: AnswerStream | None = None
    """The answer under way; None before it begins."""
    _last_events: Events = field(default_factory=list[dict[str, Any]])
    _conversation: ToolConversation | None = None

    async def run(self, failure: FerruleError | None = None) -> None:
        """Run until the response has ended or the lease is lost. If this task is cancelled, another process continues.

        `failure` is why the response cannot continue.
        """
        self.error = failure
        try:
            if failure is None and not self.event_log.cancel_requested.is_set():
                await self._drive()
            if not self.event_log.is_over:
                encoder = self.loop_encoder.encoder
                await self._end(encoder.fail(self.error) if self.error else encoder.cancel())
        except _LEASE_LOST:
            return
        finally:
            await self.event_log.stop()
            if not self.event_log.has_ended:
                with suppress(*_LEASE_LOST):
                    await self.lease.release()

    async def _drive(self) -> None:
        answer = asyncio.ensure_future(self._answer())
        writer = asyncio.ensure_future(self.event_log.run())
        cancellation = asyncio.ensure_future(self.event_log.cancel_requested.wait())
        try:
            await asyncio.wait({answer, writer, cancellation}, return_when=asyncio.FIRST_COMPLETED)
            for task in (answer, writer):
                if task.done():
                    task.result()
        except _LEASE_LOST:
            raise
        except FerruleError as error:
            if isinstance(error.__cause__, _LEASE_LOST):
                # A client would be sent an interrupted answer; this one is continued by another process.
                raise error.__cause__ from None
            self.error = error
        finally:
            await _cancel_all(answer, writer, cancellation)

    async def _answer(self) -> None:
        async with AsyncExitStack() as stack:
            if self.resume_record.tool_owner is ToolOwner.GATEWAY:
                self.lease.save_override = self._save_state
            else:
                await stack.enter_async_context(self.lease)
            self.event_log.add(self.loop_encoder.begin())
            self.answer = self._events()
            reply = await self._encode_events(self.answer)
            if self.resume_record.tool_owner is not ToolOwner.GATEWAY:
                await self._end(self._last_events, self._state_after(reply))

    def _events(self) -> AnswerStream:
        state = self.lease.record.state
        resume_record, messages = self.resume_record, messages_from_json(state["messages"])
        instructions = () if resume_record.instructions is None else (ChatMessage.system(resume_record.instructions),)
        gateway_runs_calls = resume_record.tool_owner is ToolOwner.GATEWAY
        turn = Turn(
            request=replace(
                resume_record.request, messages=messages if gateway_runs_calls else (*instructions, *messages)
            ),
            principal=self.principal,
            tool_owner=resume_record.tool_owner,
            tool_names=resume_record.tool_names,
            resumes=self.record.conversation if state["loop"] else "",
            conversation=self.record.conversation,
            is_recorded=True,
        )
        return AnswerStream(self.gateway, turn, self._open_conversation)

    async def _encode_events(self, events: AnswerStream) -> Reply:
        folding = ReplyFold()
        async with aclosing(events):
            async for event in events:
                if isinstance(event, LoopEnded):
                    await self._forget_decided(event)
                    # Written in one transaction with the end of the response.
                    self._last_events = self.loop_encoder.encode(event)
                    continue
                self.event_log.add(self.loop_encoder.encode(event))
                if self.resume_record.tool_owner is not ToolOwner.GATEWAY:
                    folding.add(event)  # pyright: ignore[reportArgumentType]  # without a loop there is nothing else
                if self.event_log.is_full:
                    await self.event_log.flush()
        return folding.reply()

    async def _forget_decided(self, end: LoopEnded) -> None:
        """Drop the approval requests that were decided elsewhere in the meantime."""
        if end.state is State.WAITING:
            for call_id, approval in self.loop_encoder.approvals.items():
                record = await self.gateway.ledger.approval(approval)
                if record is None or record.state is not ApprovalState.PENDING:
                    self.loop_encoder.encoder.drop_approval(call_id)

    async def _open_conversation(self, turn: Turn, engine: Engine) -> ToolConversation:
        conversation = ToolConversation.with_lease(
            self.lease,
            engine,
            executor_of(self.gateway, self.resume_record, self.principal),
            client_tools=turn.request.tools,
            **conversation_options(self.gateway, turn, self.resume_record.instructions),
        )
        if not conversation.is_unfinished:
            # The turn contains all messages again.
            conversation.messages = []
        self._conversation = conversation
        return conversation

    async def _save_state(self, state: StateUpdate) -> None:
        """Write the loop's state and all events before it in one transaction, so that they are always consistent."""
        status = ResponseStatus(self.loop_encoder.encoder.response["status"]) if self._last_events else None
        await self.event_log.flush(self._last_events, state=state, status=status, reach=state.rest["messages"])

    async def _end(self, last: Events, state: dict[str, Any] | None = None) -> None:
        if state is None and self._conversation is not None:
            state = self._conversation.abandon()
        final_state = state or self.lease.record.state
        status = ResponseStatus(self.loop_encoder.encoder.response["status"])
        reach = len(final_state["messages"]) if final_state else 0
        await self.event_log.flush(last, state=state, status=status, reach=reach)

    def _state_after(self, reply: Reply) -> dict[str, Any]:
        state = self.lease.record.state
        earlier = self.earlier_parts
        searches = tuple((len(earlier) + place, search) for place, search in reply.searches)
        messages = replace(reply, parts=(*earlier, *reply.parts), searches=searches).as_messages()
        return {**state, "messages": [*state["messages"], *messages_as_json(messages)]}


def completed_parts(
    output: Iterable[dict[str, Any]], client_tools: Mapping[str, ClientTool] = MappingProxyType({})
) -> tuple[ReplyPart, ...]:
    """Return the parts of completed items: a client may answer a call of an earlier owner."""
    names = {tool: name for name, tool in client_tools.items()}
    parts: list[ReplyPart] = []
    for item in output:
        match item:
            case {"type": "tool_search_call", "execution": "server"}:
                # What it found is loaded by the calls that follow.
                pass
            case {"type": kind, "status": "completed", "call_id": id} if kind in CALL_KINDS:
                tool, arguments = written_call(item)
                parts.append(ToolCall(id, FunctionCall(names.get(tool, tool.name), arguments)))
            case {"type": "message", "status": "completed", "content": content}:
                parts.append(Text("".join(part["text"] for part in content)))
            case _:
                pass
    return tuple(parts)


async def _cancel_all(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
