"""What was said in a conversation, as moments: by people, by the model, and of calls that never came to a tool.

Messages have no times of their own. A reply is found by its place: the number of messages that there were when its turn
began, and its round. What was given before a turn has the time at which the turn began.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any, cast

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.event import Usage
from ferrule.core.json_text import dumps, loads
from ferrule.core.message import ChatMessage, Part, Role
from ferrule.run.ledger.ledger import AuditRecord
from ferrule.run.reply_record import REPLIED
from ferrule.run.timeline_entry import Kind, Moment, size_of, title_of

_PLACE = re.compile(r"(\d{1,9})\.(\d{1,9})(\.\d{1,9}~*)?")
_GIVEN = {Role.SYSTEM: Kind.SYSTEM, Role.USER: Kind.USER}
_LOST = "lost: its process stopped before it was kept"


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply as its row tells of it."""

    at: float
    model: str
    seconds: float
    usage: Usage | None
    bytes: int


@dataclass(slots=True)
class _Turn:
    """By round: its replies, the last of which counts, and when it was asked for at the latest, where no row tells."""

    replies: dict[int, list[_Reply]] = field(default_factory=dict[int, list[_Reply]])
    asked: dict[int, float] = field(default_factory=dict[int, float])

    def began(self, round: int) -> float | None:
        known = self.replies.get(round)
        return known[-1].at - known[-1].seconds if known else self.asked.get(round)

    @property
    def first(self) -> float:
        found = [reply.at - reply.seconds for replies in self.replies.values() for reply in replies]
        return min([*found, *self.asked.values()])


def said_moments(
    rows: Sequence[AuditRecord], messages: Sequence[ChatMessage], called: Collection[str]
) -> Iterator[Moment]:
    """`called` are the ids of the calls that the ledger has: they are told elsewhere."""
    turns = _turns(rows)
    saved = [row.at for row in rows if row.kind == "saved"] or [row.at for row in rows] or [0.0]
    places = [place for place in sorted(turns) if messages and place <= len(messages)]
    if messages and not places:
        # A record from before replies were written down, without a call: the last that was asked was asked here.
        places = [1 + max((at for at, one in enumerate(messages) if one.role is Role.USER), default=-1)]
        turns[places[0]] = _Turn(asked={1: saved[0]})
    start = 0
    for place, behind in pairwise([*places, len(messages)]):
        turn = turns.pop(place)
        # What stands after the last answer was given to this turn; before the first turn, others have answered.
        end = _last_answer(messages, start, place)
        yield from _history(messages[start:end], turn.first)
        yield from _given(messages, range(end, place), turn.first)
        start = _last_answer(messages, place, behind)
        yield from _written(turn, place, messages[place:start], called)
    yield from _given(messages, range(start, len(messages)), saved[-1])
    for place, turn in turns.items():
        # Of messages that were forgotten it is still known when they were written.
        yield from _written(turn, place, (), called)


def _turns(rows: Sequence[AuditRecord]) -> dict[int, _Turn]:
    turns: dict[int, _Turn] = {}
    saved = 0.0
    for row in rows:
        if row.kind == "saved":
            saved = row.at
        read = _read(row) if row.kind == REPLIED else (row.call_id, None)
        found = _PLACE.fullmatch(read[0]) if read else None
        if read is None or found is None:
            continue
        turn, round, reply = turns.setdefault(int(found[1]), _Turn()), int(found[2]), read[1]
        # Calls are written down after the model was asked, and before that the loop was.
        turn.asked.setdefault(round, saved or row.at)
        if reply is not None:
            turn.replies.setdefault(round, []).append(reply)
    return turns


def _read(row: AuditRecord) -> tuple[str, _Reply] | None:
    """The place of a reply, and what is told of it; None of a row that somebody has spoiled."""
    try:
        told = cast("dict[str, Any]", loads(row.detail))
        prompt, completion = told["prompt_tokens"], told["completion_tokens"]
        usage = None if prompt is None else Usage(int(prompt), int(completion))
        took = float(told["seconds"])
        reply = _Reply(row.at, str(told["model"]), took, usage, int(told["bytes"]))
        return (str(told["place"]), reply) if isfinite(took) else None
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _last_answer(messages: Sequence[ChatMessage], start: int, end: int) -> int:
    """Behind the last message between these that a model or a tool has said."""
    while end > start and messages[end - 1].role in _GIVEN:
        end -= 1
    return end


def _history(before: Sequence[ChatMessage], at: float) -> Iterator[Moment]:
    if before:
        words = f"{len(before)} earlier messages" if len(before) > 1 else "an earlier message"
        yield Moment(at, Kind.HISTORY, words, bytes=sum(map(_size, before)))


def _given(messages: Sequence[ChatMessage], places: range, at: float) -> Iterator[Moment]:
    for number in places:
        message = messages[number]
        title = title_of(message.content)
        yield Moment(at, _GIVEN[message.role], title, bytes=_size(message), message=number)


def _written(turn: _Turn, place: int, added: Sequence[ChatMessage], called: Collection[str]) -> Iterator[Moment]:
    """The replies of a turn in their rounds, and the calls that were refused before anything was written of them."""
    results = {one.tool_call_id: one for message in added for one in message.results}
    round, at = 0, turn.first
    for number, message in enumerate(added, place):
        began = turn.began(round + 1)
        if message.role is Role.ASSISTANT:
            round += 1
            at = at if began is None else began
            yield from _replied(turn.replies.get(round, ()), at, message, number)
            for nth, call in enumerate(message.tool_calls):
                id = f"{place}.{round}.{nth}"
                if id not in called and call.id in results:
                    yield _refused(call, results[call.id], id, _ended(turn, round, at))
        elif message.role is Role.USER:
            when, title = at if began is None else began, title_of(message.content)
            yield Moment(when, Kind.LIMIT, title, bytes=_size(message), message=number)
    for later in sorted(turn.replies):
        if later > round:
            yield from _replied(turn.replies[later], turn.began(later) or at, None)


def _replied(
    replies: Sequence[_Reply], at: float, message: ChatMessage | None, number: int | None = None
) -> Iterator[Moment]:
    for lost in replies[:-1]:
        began = lost.at - lost.seconds
        yield Moment(began, Kind.MODEL, _LOST, lost.seconds, tokens=lost.usage, bytes=lost.bytes, is_error=True)
    if replies:
        kept = replies[-1]
        title = _title(message) if message else kept.model
        yield Moment(at, Kind.MODEL, title, kept.seconds, tokens=kept.usage, bytes=kept.bytes, message=number)
    elif message is not None:
        yield Moment(at, Kind.MODEL, _title(message), bytes=_size(message), message=number)


def _refused(call: ToolCall, result: ToolResult, id: str, at: float) -> Moment:
    title = title_of(f"{call.name} {call.function.arguments}")
    size = size_of(_content(result))
    return Moment(at, Kind.REFUSED, title, call_id=id, tool=call.name, bytes=size, is_error=result.is_error)


def _ended(turn: _Turn, round: int, at: float) -> float:
    known = turn.replies.get(round)
    return known[-1].at if known else at


def _title(message: ChatMessage) -> str:
    if message.content.strip():
        return title_of(message.content)
    names = ", ".join(call.name for call in message.tool_calls)
    return title_of(f"calls {names}" if names else message.reasoning)


def _size(message: ChatMessage) -> int:
    return sum(size_of(_text(part)) for part in message.parts)


def _text(part: Part) -> str:
    match part:
        case ToolCall():
            return part.name + part.function.arguments
        case ToolResult():
            return _content(part)
        case _:
            return part.text


def _content(result: ToolResult) -> str:
    return result.content if isinstance(result.content, str) else dumps(result.content)
