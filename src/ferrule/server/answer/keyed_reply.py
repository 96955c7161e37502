"""A reply that is kept for requests with the same `Idempotency-Key`. The gateway runs none of its calls.

It is the only content of a conversation of its own, whose lease makes a second request wait for the first.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from ferrule.core.message import messages_as_json, messages_from_json
from ferrule.core.reply import ReplyFold
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.run.events import LoopEvent
from ferrule.run.lease import Lease
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.turn_record import TurnRecord, turn_events
from ferrule.server.answer.plan import Turn
from ferrule.server.gateway import Gateway

_VERSION = 1


async def stream_keyed_reply(
    gateway: Gateway, turn: Turn, engine: Engine, request: ToolCallRequest
) -> AsyncGenerator[LoopEvent]:
    """Yield the events of the reply: those of the engine, or those of the reply that was kept."""
    lease = await Lease.wait(gateway.ledger, turn.conversation, turn.principal, gateway.config.lease_seconds)
    try:
        async with lease:
            state = cast("dict[str, Any] | None", lease.record.state)
            if state is not None:
                record = TurnRecord.from_dict(state["turn"])
                for event in turn_events(messages_from_json(state["messages"])[record.start :], record):
                    yield event
                return
            reply_fold = ReplyFold()
            async with aclosing(engine.stream_request(request)) as events:
                async for event in events:
                    reply_fold.add(event)
                    yield event
            reply = reply_fold.reply()
            receipts = {call.id: call.receipt for call in reply.calls if call.receipt is not None}
            start = len(turn.request.messages)
            record = TurnRecord(start, reply.finish_reason, reply.usage, receipts=receipts, stop=reply.stop)
            messages = messages_as_json([*turn.request.messages, reply.as_message()])
            # Of the same form as the state of a `ToolConversation`, so that whatever shows conversations can show it.
            state = {"version": _VERSION, "messages": messages, "loop": None, "turn": record.as_dict()}
            await lease.save(StateUpdate.of(state))
    finally:
        await lease.release()
