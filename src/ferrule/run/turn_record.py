"""TurnRecord: what the messages of a finished turn do not say, so that its events can be sent again.

A client that lost the answer to its request sends the request again. It then gets the same answer: the events are made
of the messages that the turn added to the conversation, and of this record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ferrule.core.call import TOOL_SEARCH, Receipt, ToolCall, ToolResult
from ferrule.core.event import Finish, FinishReason, ToolSearch, Usage
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Role
from ferrule.core.reply import Reply, events_of
from ferrule.core.tool_search import error_of, found_names
from ferrule.run.events import LoopEvent, ToolFinished, ToolStarted


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """`start` is the number of messages before the turn. `limit` names the limit that ended it, if one did.

    `receipts` are those of its calls, by the call's id.
    """

    start: int
    finish: FinishReason
    usage: Usage | None = None
    limit: str = ""
    receipts: Mapping[str, Receipt] = field(default_factory=dict[str, Receipt])
    stop: str = ""
    """The stop string that ended the last reply, if one did."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "finish": self.finish.value,
            "usage": usage_as_list(self.usage),
            "limit": self.limit,
            "receipts": {id: receipt.as_dict() for id, receipt in self.receipts.items()},
            "stop": self.stop,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> TurnRecord:
        return TurnRecord(
            data["start"],
            FinishReason(data["finish"]),
            usage_from_list(data["usage"]),
            data["limit"],
            receipts_from_dict(data["receipts"]),
            # An earlier release did not save it.
            data.get("stop", ""),
        )


def usage_as_list(usage: Usage | None) -> list[int] | None:
    if usage is None:
        return None
    return [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens]


def usage_from_list(data: list[int] | None) -> Usage | None:
    # An earlier release saved two numbers.
    return None if data is None else Usage(*data)


def receipts_from_dict(data: Mapping[str, Mapping[str, Any]]) -> dict[str, Receipt]:
    return {id: Receipt(**{name: _frozen(value) for name, value in one.items()}) for id, one in data.items()}


def message_events(messages: Iterable[ChatMessage], receipts: Mapping[str, Receipt]) -> Iterator[LoopEvent]:
    """Yield the events of complete rounds: the model's replies, and the calls with their results."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if message.role is Role.TOOL:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    call = calls.get(part.tool_call_id)
                    if call is not None and call.type == TOOL_SEARCH:
                        yield ToolSearch(call, part, found_names(part.text), error=error_of(part.text))
                        continue
                    if part.tool_call_id in calls:
                        yield ToolStarted(calls[part.tool_call_id])
                    yield ToolFinished(part)
        elif message.role is Role.ASSISTANT:
            calls = {call.id: call for call in message.tool_calls}
            # A search does not end its reply: the last message does.
            searches = [call for call in message.tool_calls if call.type == TOOL_SEARCH]
            events = events_of(_reply_of(message, receipts))
            yield from (one for one in events if not (searches and isinstance(one, Finish)))


def turn_events(messages: Iterable[ChatMessage], record: TurnRecord) -> Iterator[LoopEvent]:
    """Yield the events of a finished turn, without the end of the loop."""
    events = list(message_events(messages, record.receipts))
    # The usage of the turn is that of its last reply.
    yield from (events[:-1] if events and isinstance(events[-1], Finish) else events)
    yield Finish(record.finish, record.usage, record.stop)


def _reply_of(message: ChatMessage, receipts: Mapping[str, Receipt]) -> Reply:
    """Return the reply that a message was made of, with the receipts of its calls."""
    parts = [
        replace(part, receipt=receipts.get(part.id)) if isinstance(part, ToolCall) else part for part in message.parts
    ]
    return Reply(tuple(part for part in parts if not (isinstance(part, ToolResult | Media) or _is_search(part))))


def _is_search(part: object) -> bool:
    return isinstance(part, ToolCall) and part.type == TOOL_SEARCH


def _frozen(value: Any) -> Any:
    """Return a list of JSON as the tuple that a receipt has."""
    return tuple(cast("list[str]", value)) if isinstance(value, list) else value
