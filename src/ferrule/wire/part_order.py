"""Put a reply's parts into the order in which the format writes them.

`blocks` raises for a reply that is not in that order; `arrange_parts` reorders it, for histories from other sources.
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
    """Consecutive parts that one item of the turn renders."""

    item: Item
    parts: tuple[ReplyPart, ...]
    follows_text: bool = False


def blocks(turn: Turn, reply: Reply) -> list[Block]:
    """Pair the items of a turn with the parts that they render. Raises `UnrenderableError` if a part fits none."""
    groups = [(kind, tuple(parts)) for kind, parts in groupby(_nonempty_parts(reply), key=lambda part: part.__class__)]
    result: list[Block] = []
    at = 0
    for number, (kind, parts) in enumerate(groups):
        index = _item_index(turn, kind, at, is_last=number == len(groups) - 1)
        if index is None:
            raise UnrenderableError(
                f"it cannot be written {'after ' + _NAMES[groups[number - 1][0]] if number else 'in this format'}",
                where=_NAMES[kind],
                hint="arrange_parts(format, reply) puts the parts into the order in which the format writes them.",
            )
        at = index + 1 if turn.is_ordered else 0
        item = turn.items[index]
        if isinstance(item, Calls) and item.max_calls is not None and len(parts) > item.max_calls:
            raise UnrenderableError(f"this family allows {item.max_calls} per turn", where=f"{len(parts)} calls")
        result.append(Block(item, parts, follows_text=bool(result) and isinstance(result[-1].item, Free)))
    return result


_NAMES: dict[type[ReplyPart], str] = {Reasoning: "reasoning", Text: "text", ToolCall: "a call"}


def _nonempty_parts(reply: Reply) -> list[ReplyPart]:
    return [part for part in reply.parts if isinstance(part, ToolCall) or part.text]


def _item_index(turn: Turn, kind: type[ReplyPart], at: int, *, is_last: bool) -> int | None:
    places = [n for n, item in enumerate(turn.items) if n >= at and _KINDS[item.__class__] is kind]
    if not places:
        return None
    # With two positions for text, the last one is for the text that ends the turn.
    return places[-1] if is_last and not turn.is_ordered else places[0]


def arrange_parts(format: Format, reply: Reply) -> Reply:
    """Return the reply with its parts in the format's order, adjacent texts merged.

    Reasoning is dropped if the format has no markers for it. Nothing else is dropped.
    """
    turn = format.reply
    parts = _nonempty_parts(reply)
    if turn.is_ordered:
        order = [_KINDS[item.__class__] for item in turn.items]
        parts = [part for kind in dict.fromkeys(order) for part in parts if isinstance(part, kind)]
    return replace(reply, parts=tuple(_merge_adjacent(parts)))


def _merge_adjacent(parts: list[ReplyPart]) -> list[ReplyPart]:
    result: list[ReplyPart] = []
    for kind, group in groupby(parts, key=lambda part: part.__class__):
        if kind is ToolCall:
            result.extend(group)
        else:
            text = "".join(part.text for part in group if not isinstance(part, ToolCall))
            result.append(Text(text) if kind is Text else Reasoning(text))
    return result
