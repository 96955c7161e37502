"""Write the turns of another model in a format: a conversation may move between models, and none of it is refused.

A client sends what any model wrote before. Some of that a format cannot express as it is:

| in the conversation | what the model reads |
|---|---|
| a call id in the form of another family | an id in the family's own form, the same for the call and its result |
| text that the format reads as markup | the text with a zero width space inside of the markup |
| more calls in one turn than the family allows | the calls one after the other |
| an argument that contains its own end | the call with a zero width space in its texts, or as plain text |

An id is derived from the foreign one, so that the same conversation always gives the same prompt. Each change adds a
note. `render` itself stays strict: it refuses what it cannot write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, cast

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.json_text import dumps, loads
from ferrule.core.message import ChatMessage, Reasoning, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.tool import ToolDefinition
from ferrule.errors import UnrenderableError
from ferrule.wire.format import Format
from ferrule.wire.neutral_text import BREAK, neutralize
from ferrule.wire.node import Think
from ferrule.wire.parser import parse
from ferrule.wire.renderer import arrange_parts, render

FOREIGN_IDS = "ids of earlier calls are written in this family's form"
MARKUP = "earlier text that this format reads as markup is written with zero width spaces"
CALLS_APART = "earlier calls are written one after the other, because this family has fewer in one turn"
CHANGED_CALLS = "earlier calls that this format cannot express are written with zero width spaces or as plain text"

_PUNCTUATION = re.compile(r"[^\w\s]")
_Change = Callable[[str], str]


def own_ids(format: Format, messages: Sequence[ChatMessage]) -> tuple[tuple[ChatMessage, ...], tuple[str, ...]]:
    """Return the messages with every id in the family's form, and notes. Calls and their results keep the same id."""
    translation = _IdTranslation(format)
    translated = tuple(translation.message(message) for message in messages)
    return translated, (FOREIGN_IDS,) if translation.changed else ()


@dataclass(slots=True)
class _IdTranslation:
    """Ids by the foreign ones, in the order of the conversation: a longer one begins with the ids of the shorter."""

    format: Format
    calls: int = 0
    changed: bool = False
    _own: dict[str, str] = field(default_factory=dict[str, str])
    _origins: dict[str, str] = field(default_factory=dict[str, str])
    """What each id that is in use was before."""

    def message(self, message: ChatMessage) -> ChatMessage:
        parts = tuple(self._part(part) for part in message.parts)
        return message if parts == message.parts else ChatMessage(message.role, parts)

    def _part(self, part: Any) -> Any:
        match part:
            case ToolCall():
                own = self._own[part.id] = self._call_id(part.id, part.name)
                self.calls += 1
                return part if own == part.id else replace(part, id=own)
            case ToolResult():
                own = self._own.get(part.tool_call_id)
                if own is None:
                    own = self._own[part.tool_call_id] = self._call_id(part.tool_call_id, part.name)
                return part if own == part.tool_call_id else replace(part, tool_call_id=own)
            case _:
                return part

    def _call_id(self, id: str, name: str) -> str:
        policy = self.format.ids
        if policy.fits(id, name) and self._origins.setdefault(id, id) == id:
            return id
        self.changed = True
        for attempt in count():
            own = policy.derive(f"{id}#{attempt}" if attempt else id, name, self.calls + attempt)
            # A call without an id has no result that names it, so each of them gets an id of its own.
            if own not in self._origins or (id and self._origins[own] == id):
                self._origins[own] = id
                return own
        raise AssertionError("count() does not end")


def write_turn(
    format: Format, parts: Iterable[ReplyPart], tools: tuple[ToolDefinition, ...], calls_before: int
) -> tuple[str, tuple[str, ...]]:
    """Return the text of a model's turn in this format, and notes on what had to be changed."""
    reply = arrange_parts(format, Reply(_without_unmarked_reasoning(format, parts)))
    broken = _map_text(reply, lambda text: neutralize(text, format))
    for candidate, notes in ((reply, ()), (broken, (MARKUP,))):
        try:
            return render(format, candidate, tools, calls_before=calls_before), notes
        except UnrenderableError:
            continue
    return _write_apart(format, broken, tools, calls_before)


def _without_unmarked_reasoning(format: Format, parts: Iterable[ReplyPart]) -> tuple[ReplyPart, ...]:
    has_reasoning = any(isinstance(item, Think) for item in format.reply.items)
    # Reasoning without a text is another provider's, encrypted.
    return tuple(part for part in parts if not isinstance(part, Reasoning) or (has_reasoning and part.text))


def _map_text(reply: Reply, change: _Change) -> Reply:
    return replace(
        reply,
        parts=tuple(part if isinstance(part, ToolCall) else type(part)(change(part.text)) for part in reply.parts),
    )


def _write_apart(
    format: Format, reply: Reply, tools: tuple[ToolDefinition, ...], calls_before: int
) -> tuple[str, tuple[str, ...]]:
    """Write each part alone, in the first way in which the format can write it."""
    written = _join_parts(format, reply, tools, calls_before)
    if not written.is_read_as(format, tools):
        # A text that is no call alone can be one beside a call, in formats whose calls have no markers.
        written = _join_parts(format, _map_text(reply, _break_everything), tools, calls_before)
        written.notes[MARKUP] = None
    return written.text, tuple(written.notes)


@dataclass(slots=True)
class _PartTexts:
    texts: list[str] = field(default_factory=list[str])
    calls: int = 0
    notes: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def text(self) -> str:
        return "\n".join(filter(None, self.texts))

    def is_read_as(self, format: Format, tools: tuple[ToolDefinition, ...]) -> bool:
        """Whether no more calls are read in the text than were written in it."""
        return len(parse(format, self.text, tools).calls) <= self.calls


def _join_parts(format: Format, reply: Reply, tools: tuple[ToolDefinition, ...], calls_before: int) -> _PartTexts:
    written = _PartTexts()
    if sum(isinstance(part, ToolCall) for part in reply.parts) > 1:
        written.notes[CALLS_APART] = None
    for number, part in enumerate(reply.parts):
        ways = _ways_of_call(format, part, tools) if isinstance(part, ToolCall) else _ways_of_text(part)
        for way, note in ways:
            if note:
                written.notes[note] = None
            if isinstance(way, str):
                written.texts.append(way)
                break
            try:
                written.texts.append(render(format, Reply.of(way[0]), way[1], calls_before=calls_before + number))
            except UnrenderableError:
                continue
            written.calls += isinstance(part, ToolCall)
            break
    return written


_Way = tuple[tuple[ReplyPart, tuple[ToolDefinition, ...]] | str, str]
"""A part to render with these tools, or a text as it is; and the note on it."""


def _ways_of_text(part: Text | Reasoning) -> Iterator[_Way]:
    yield (part, ()), ""
    broken = type(part)(_break_everything(part.text))
    yield (broken, ()), MARKUP
    if isinstance(part, Text):
        yield broken.text, MARKUP
    else:
        # Reasoning without its markers would be read as an answer.
        yield "", MARKUP


def _ways_of_call(format: Format, call: ToolCall, tools: tuple[ToolDefinition, ...]) -> Iterator[_Way]:
    # The tool may have had other types when it was called.
    undeclared = (ToolDefinition(call.name),)
    yield (call, tools), ""
    yield (call, undeclared), ""
    changes: tuple[_Change, ...] = (partial(neutralize, format=format), _break_everything)
    for change in changes:
        try:
            arguments = dumps(_map_strings(loads(call.function.arguments), change))
        except (ValueError, RecursionError):
            # Not JSON. Without the gateway, which repairs such calls, they are plain text.
            break
        changed = replace(call, function=FunctionCall(call.name, arguments))
        yield (changed, tools), CHANGED_CALLS
        yield (changed, undeclared), CHANGED_CALLS
    yield _break_everything(f"{call.name} {call.function.arguments}"), CHANGED_CALLS


def _break_everything(text: str) -> str:
    """Put a zero width space behind every sign: no markup of any format is left."""
    return BREAK + _PUNCTUATION.sub(lambda match: match.group() + BREAK, text)


def _map_strings(value: Any, change: _Change) -> Any:
    # Arguments of a conversation nest at most `core.history.MAX_DEPTH` deep.
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _map_strings(item, change) for key, item in cast("dict[str, Any]", value).items()}
        case list():
            return [_map_strings(item, change) for item in cast("list[Any]", value)]
        case _:
            return value
