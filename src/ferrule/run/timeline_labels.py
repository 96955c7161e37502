"""Timeline entries of messages: what users and the model wrote, and calls that never reached a tool.

Messages have no timestamps. A reply is found by its place: the number of messages when its turn began, and its round.
The messages before a turn get the time at which the turn began.
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
from ferrule.core.media import Media, media_line
from ferrule.core.message import ChatMessage, Part, Role
from ferrule.run.ledger.ledger import AuditRecord
from ferrule.run.reply_record import REPLY_KIND
from ferrule.run.timeline_entry import EntryKind, TimelineEntry, size_of, title_of

_PLACE = re.compile(r"(\d{1,9})\.(\d{1,9})(\.\d{1,9}~*)?")
_INPUT_KINDS = {Role.SYSTEM: EntryKind.SYSTEM, Role.USER: EntryKind.USER}
_LOST = "lost: its process stopped before the reply was saved"


@dataclass(frozen=True, slots=True)
class _ReplyRow:
    """A reply as its audit row describes it."""

    at: float
    model: str
    seconds: float
    usage: Usage | None
    bytes: int


@dataclass(slots=True)
class _Turn:
    """One turn. By round: its replies, of which the last one counts, and when the model was asked at the latest."""

    replies: dict[int, list[_ReplyRow]] = field(default_factory=dict[int, list[_ReplyRow]])
    asked_at: dict[int, float] = field(default_factory=dict[int, float])

    def began(self, round: int) -> float | None:
        replies = self.replies.get(round)
        return replies[-1].at - replies[-1].seconds if replies else self.asked_at.get(round)

    @property
    def first(self) -> float:
        starts = [reply.at - reply.seconds for replies in self.replies.values() for reply in replies]
        return min([*starts, *self.asked_at.values()])


def message_entries(
    rows: Sequence[AuditRecord], messages: Sequence[ChatMessage], recorded_calls: Collection[str]
) -> Iterator[TimelineEntry]:
    """Yield the entries of messages. The ids in `recorded_calls` are left out: those calls have their own entries."""
    turns = _turns(rows)
    saved_at = [row.at for row in rows if row.kind == "saved"] or [row.at for row in rows] or [0.0]
    places = [place for place in sorted(turns) if messages and place <= len(messages)]
    if messages and not places:
        # A record from a release that did not record replies, without a call: the last user message began the turn.
        places = [1 + max((at for at, one in enumerate(messages) if one.role is Role.USER), default=-1)]
        turns[places[0]] = _Turn(asked_at={1: saved_at[0]})
    start = 0
    for place, next_place in pairwise([*places, len(messages)]):
        turn = turns.pop(place)
        # Messages after the last answer are the input of this turn. Answers before the first turn are history.
        end = _last_answer(messages, start, place)
        yield from _history(messages[start:end], turn.first)
        yield from _input_entries(messages, range(end, place), turn.first)
        start = _last_answer(messages, place, next_place)
        yield from _turn_entries(turn, place, messages[place:start], recorded_calls)
    yield from _input_entries(messages, range(start, len(messages)), saved_at[-1])
    for place, turn in turns.items():
        # The messages were deleted, but the audit rows still tell when they were written.
        yield from _turn_entries(turn, place, (), recorded_calls)


def _turns(rows: Sequence[AuditRecord]) -> dict[int, _Turn]:
    turns: dict[int, _Turn] = {}
    saved_at = 0.0
    for row in rows:
        if row.kind == "saved":
            saved_at = row.at
        parsed = _read(row) if row.kind == REPLY_KIND else (row.call_id, None)
        match = _PLACE.fullmatch(parsed[0]) if parsed else None
        if parsed is None or match is None:
            continue
        turn, round, reply = turns.setdefault(int(match[1]), _Turn()), int(match[2]), parsed[1]
        # Calls are recorded after the model was asked, and the loop saved its state before it asked.
        turn.asked_at.setdefault(round, saved_at or row.at)
        if reply is not None:
            turn.replies.setdefault(round, []).append(reply)
    return turns


def _read(row: AuditRecord) -> tuple[str, _ReplyRow] | None:
    """Return the place of a reply and its row; None where the row is damaged."""
    try:
        detail = cast("dict[str, Any]", loads(row.detail))
        prompt, completion = detail["prompt_tokens"], detail["completion_tokens"]
        usage = None if prompt is None else Usage(int(prompt), int(completion))
        seconds = float(detail["seconds"])
        reply = _ReplyRow(row.at, str(detail["model"]), seconds, usage, int(detail["bytes"]))
        return (str(detail["place"]), reply) if isfinite(seconds) else None
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _last_answer(messages: Sequence[ChatMessage], start: int, end: int) -> int:
    """Return the index after the last message in this range that a model or a tool wrote."""
    while end > start and messages[end - 1].role in _INPUT_KINDS:
        end -= 1
    return end


def _history(messages: Sequence[ChatMessage], at: float) -> Iterator[TimelineEntry]:
    if messages:
        title = f"{len(messages)} earlier messages" if len(messages) > 1 else "an earlier message"
        yield TimelineEntry(at, EntryKind.HISTORY, title, bytes=sum(map(_size, messages)))


def _input_entries(messages: Sequence[ChatMessage], places: range, at: float) -> Iterator[TimelineEntry]:
    for number in places:
        message = messages[number]
        title = title_of(message.content)
        yield TimelineEntry(at, _INPUT_KINDS[message.role], title, bytes=_size(message), message=number)


def _turn_entries(
    turn: _Turn, place: int, new_messages: Sequence[ChatMessage], recorded_calls: Collection[str]
) -> Iterator[TimelineEntry]:
    """Yield the replies of a turn by round, and the calls that were refused before they were recorded."""
    results = {one.tool_call_id: one for message in new_messages for one in message.results}
    round, at = 0, turn.first
    for number, message in enumerate(new_messages, place):
        began = turn.began(round + 1)
        if message.role is Role.ASSISTANT:
            round += 1
            at = at if began is None else began
            yield from _reply_entries(turn.replies.get(round, ()), at, message, number)
            for nth, call in enumerate(message.tool_calls):
                id = f"{place}.{round}.{nth}"
                if id not in recorded_calls and call.id in results:
                    yield _refused_entry(call, results[call.id], id, _reply_end(turn, round, at))
        elif message.role is Role.USER:
            when, title = at if began is None else began, title_of(message.content)
            yield TimelineEntry(when, EntryKind.LIMIT, title, bytes=_size(message), message=number)
    for later in sorted(turn.replies):
        if later > round:
            yield from _reply_entries(turn.replies[later], turn.began(later) or at, None)


def _reply_entries(
    replies: Sequence[_ReplyRow], at: float, message: ChatMessage | None, number: int | None = None
) -> Iterator[TimelineEntry]:
    for lost in replies[:-1]:
        began = lost.at - lost.seconds
        yield TimelineEntry(
            began, EntryKind.MODEL, _LOST, lost.seconds, tokens=lost.usage, bytes=lost.bytes, is_error=True
        )
    if replies:
        last = replies[-1]
        title = _title(message) if message else last.model
        yield TimelineEntry(
            at, EntryKind.MODEL, title, last.seconds, tokens=last.usage, bytes=last.bytes, message=number
        )
    elif message is not None:
        yield TimelineEntry(at, EntryKind.MODEL, _title(message), bytes=_size(message), message=number)


def _refused_entry(call: ToolCall, result: ToolResult, id: str, at: float) -> TimelineEntry:
    title = title_of(f"{call.name} {call.function.arguments}")
    size = size_of(_content(result))
    return TimelineEntry(at, EntryKind.REFUSED, title, call_id=id, tool=call.name, bytes=size, is_error=result.is_error)


def _reply_end(turn: _Turn, round: int, at: float) -> float:
    replies = turn.replies.get(round)
    return replies[-1].at if replies else at


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
        case Media():
            return media_line(part)
        case _:
            return part.text


def _content(result: ToolResult) -> str:
    text = result.content if isinstance(result.content, str) else dumps(result.content)
    return "\n".join((text, *map(media_line, result.media))) if result.media else text
