"""Arrange: put a reply's parts into the order in which the format writes them.

`blocks` refuses a reply that is not in that order; `arranged` brings it there, for histories that came from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from ferrule.core.call import ToolCall
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.errors import UnrenderableError
from ferrule.wire.format import Format
from ferrule.wire.node import Calls, Free, Item, Think, Turn

_KINDS: dict[type[Item], type[ReplyPart]] = {Think: Reasoning, Free: Text, Calls: ToolCall}


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive parts that one item writes."""

    item: Item
    parts: tuple[ReplyPart, ...]
    follows_text: bool = False


def blocks(turn: Turn, reply: Reply) -> list[Block]:
    """The items of a turn with the parts that they write. `UnrenderableError` when there is no place for one."""
    groups = [(kind, tuple(parts)) for kind, parts in groupby(_spoken(reply), key=lambda part: part.__class__)]
    made: list[Block] = []
    at = 0
    for number, (kind, parts) in enumerate(groups):
        found = _place(turn, kind, at, is_last=number == len(groups) - 1)
        if found is None:
            raise UnrenderableError(
                f"there is no place for it {'after ' + _NAMES[groups[number - 1][0]] if number else 'in this format'}",
                where=_NAMES[kind],
                hint="arranged(format, reply) brings the parts into the order in which the format writes them.",
            )
        at = found + 1 if turn.is_ordered else 0
        item = turn.items[found]
        if isinstance(item, Calls) and item.max_calls is not None and len(parts) > item.max_calls:
            raise UnrenderableError(f"this family takes {item.max_calls} in a turn", where=f"{len(parts)} calls")
        made.append(Block(item, parts, follows_text=bool(made) and isinstance(made[-1].item, Free)))
    return made


_NAMES: dict[type[ReplyPart], str] = {Reasoning: "reasoning", Text: "text", ToolCall: "a call"}


def _spoken(reply: Reply) -> list[ReplyPart]:
    return [part for part in reply.parts if isinstance(part, ToolCall) or part.text]


def _place(turn: Turn, kind: type[ReplyPart], at: int, *, is_last: bool) -> int | None:
    places = [n for n, item in enumerate(turn.items) if n >= at and _KINDS[item.__class__] is kind]
    if not places:
        return None
    # Where there are two places for text, the last one is for the text that ends the turn.
    return places[-1] if is_last and not turn.is_ordered else places[0]


def arranged(format: Format, reply: Reply) -> Reply:
    """The same reply with its parts where the format has a place for them, text with text and calls with calls.

    Reasoning is left out where the family has no marks for it; nothing else is.
    """
    turn = format.reply
    parts = _spoken(reply)
    if turn.is_ordered:
        order = [_KINDS[item.__class__] for item in turn.items]
        parts = [part for kind in dict.fromkeys(order) for part in parts if isinstance(part, kind)]
    return replace(reply, parts=tuple(_merged(parts)))


def _merged(parts: list[ReplyPart]) -> list[ReplyPart]:
    merged: list[ReplyPart] = []
    for kind, group in groupby(parts, key=lambda part: part.__class__):
        if kind is ToolCall:
            merged.extend(group)
        else:
            text = "".join(part.text for part in group if not isinstance(part, ToolCall))
            merged.append(Text(text) if kind is Text else Reasoning(text))
    return merged
