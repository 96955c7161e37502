"""Render a reply, or tool results, as the model family writes them: the inverse of the parser.

Every rendering is parsed again before it is returned. A reply that would be parsed as something else (a marker inside
text, a closing marker inside a raw value) raises an error that names the part, so text can never pose as a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.json_text import dumps
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.tool import ToolDefinition
from ferrule.errors import UnrenderableError
from ferrule.schema.notation import JSON, OBJECT
from ferrule.schema.reader import normalize_json
from ferrule.schema.value_decoder import encode
from ferrule.schema.value_text import UnrepresentableError, bare_key, loads_verbatim, members, write_key, write_value
from ferrule.wire.format import Format
from ferrule.wire.neutral_text import neutralize, neutralize_turns
from ferrule.wire.node import (
    Args,
    Body,
    Calls,
    Envelope,
    Fields,
    Free,
    HeaderId,
    Item,
    Keyed,
    Kind,
    Lit,
    Node,
    Seq,
    Slot,
    Space,
    Think,
    Turn,
)
from ferrule.wire.parse_plan import plan_of
from ferrule.wire.parser import parse
from ferrule.wire.tape import Stops
from ferrule.wire.tool_offer import ToolOffer

# Put a reply's parts into the order in which the format writes them.
#
# `blocks` raises for a reply that is not in that order; `arrange_parts` reorders it, for histories from other
# sources.

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


_TYPES: dict[type, str] = {dict: "object", list: "array", bool: "boolean", type(None): "null"}


def write_fields(node: Fields, tool: str, arguments: str, offer: ToolOffer) -> str:
    return node.sep.canonical.join(_field(node, tool, key, value, offer) for key, value in members(arguments))


def _field(node: Fields, tool: str, key: str, value: object, offer: ToolOffer) -> str:
    kind = _kind_of(node, value)
    raw = _raw(value, kind, key, offer.types(tool, key), node.python_literals)
    pieces: list[str] = []
    for part in node.field.parts:
        match part:
            case Lit() | Space():
                pieces.append(part.canonical)
            case Slot.KEY:
                pieces.append(key)
            case Slot.KIND:
                pieces.append(kind.word if kind else "")
            case _:
                pieces.append(_quote_value(node, key, raw))
    return "".join(pieces)


def _kind_of(node: Fields, value: object) -> Kind | None:
    name = json_type(value)
    return next((kind for kind in node.kinds if name in kind.types), None)


def json_type(value: object) -> str:
    """The JSON type of a value from `loads_verbatim`, which returns numbers as a subclass of str."""
    if value.__class__ is str:
        return "string"
    return _TYPES.get(value.__class__, "number")


def _raw(value: object, kind: Kind | None, key: str, allowed: frozenset[str], python_literals: bool) -> str:
    if kind is not None:
        return str(value) if kind.is_raw else write_value(value, JSON)
    json_text = dumps(value) if value.__class__ is str else write_value(value, JSON)
    raw = encode(json_text, allowed, python_literals)
    if raw is None:
        expected = " or ".join(sorted(allowed))
        raise UnrepresentableError(f"the value of {key!r} is of type {json_type(value)}; the tool expects {expected}")
    return raw


def _quote_value(node: Fields, key: str, raw: str) -> str:
    """The raw value, quoted if necessary. Raises if the value contains the text that ends it."""
    if node.quote and any(character in raw for character in node.quote_when):
        _refuse(raw, (node.quote[1],), key)
        return node.quote[0] + raw + node.quote[1]
    last = node.field.parts[node.field.parts.index(Slot.VALUE) + 1]
    if isinstance(last, Lit):
        _refuse(raw, last.spellings, key)
    if node.quote and raw.startswith(node.quote[0]):
        raise UnrepresentableError(
            f"the value of {key!r} begins with {node.quote[0]!r}, which would be read as a quote"
        )
    return raw


def _refuse(raw: str, closers: tuple[str, ...], key: str) -> None:
    if Stops(closers).scan(raw + closers[0], 0, True).at < len(raw):
        raise UnrepresentableError(
            f"the value of {key!r} contains {closers[-1]!r}, which would end it; this format has no escape for it"
        )


def check_round_trip(
    format: Format, reply: Reply, text: str, tools: Iterable[ToolDefinition] | None, calls_before: int
) -> None:
    """Raise `UnrenderableError` that names the first part of the reply that parsing `text` does not give back."""
    expected = arrange_parts(format, reply).parts
    actual = parse(format, text, tools, calls_before=calls_before).parts
    ids_are_written = plan_of(format).writes_ids
    for place, part in enumerate(expected):
        if place >= len(actual) or not is_same_part(part, actual[place], ids_are_written):
            raise UnrenderableError(
                "it contains text that this format parses as markup",
                where=_name(part),
                hint="This format has no way to write such text: quote it or change it.",
            )
    if len(actual) > len(expected):
        raise UnrenderableError(
            "parsing it again would give more parts than were rendered", where=_name(actual[len(expected)])
        )


def is_same_part(expected: ReplyPart, actual: ReplyPart, with_ids: bool) -> bool:
    """Whether two parts are equal in meaning. Ids count only if the format writes them and one was expected."""
    if not isinstance(expected, ToolCall) or not isinstance(actual, ToolCall):
        return expected == actual
    if with_ids and expected.id and expected.id != actual.id:
        return False
    if (expected.name, expected.complete) != (actual.name, actual.complete):
        return False
    # Compared as values, because some families sort the keys; numbers are compared as they are written.
    return loads_verbatim(expected.function.arguments) == loads_verbatim(actual.function.arguments)


def _name(part: ReplyPart) -> str:
    return f"the call of {part.name!r}" if isinstance(part, ToolCall) else part.__class__.__name__.lower()


def render(
    format: Format, reply: Reply, tools: Iterable[ToolDefinition] | None = None, *, calls_before: int = 0
) -> str:
    """Return the text of a reply in this format. Raises `UnrenderableError` if the format cannot express it.

    Example:
        from ferrule import Reply, ToolCall
        from ferrule.formats import get_format, render

        reply = Reply.of("Let me look.", ToolCall.of("get_weather", {"city": "Paris"}))
        print(render(get_format("hermes"), reply))
    """
    definitions = tuple(tools) if tools is not None else None
    text = _Renderer(format, ToolOffer(definitions), calls_before).turn(reply)
    check_round_trip(format, reply, text, definitions, calls_before)
    return text


def render_results(format: Format, results: Sequence[ToolResult]) -> str:
    """Return the text that sends tool results to the model. Markup inside a result is neutralized.

    Example:
        from ferrule import ToolResult
        from ferrule.formats import get_format, render_results

        print(render_results(get_format("hermes"), [ToolResult("call_1", "get_weather", "18 degrees")]))
    """
    shape = format.result
    renderer = _Renderer(format, ToolOffer(None), 0)
    return shape.open + shape.sep.join(renderer.result(shape.each, result) for result in results) + shape.close


class _Renderer:
    def __init__(self, format: Format, offer: ToolOffer, calls_before: int) -> None:
        self._format = format
        self._offer = offer
        self._count = calls_before

    def turn(self, reply: Reply) -> str:
        between = self._format.reply.between
        pieces: list[str] = []
        for block in blocks(self._format.reply, reply):
            if isinstance(block.item, Calls) and block.follows_text and block.item.glue:
                pieces[-1] += block.item.glue.canonical
            pieces.extend(self._block(block))
        return (between.canonical if between else "").join(pieces)

    def _block(self, block: Block) -> list[str]:
        item = block.item
        match item:
            case Think(open, close):
                return [open.canonical + _join_text(block.parts) + close.canonical]
            case Free(open, close):
                before = open.canonical if open else ""
                after = close.canonical if close else ""
                return [before + _join_text(block.parts) + after]
            case Calls():
                texts = [self._call(item, part) for part in block.parts if isinstance(part, ToolCall)]
                if self._format.reply.between:
                    return texts
                open_text = item.open.canonical if item.open else ""
                close_text = item.close.canonical if item.close else ""
                return [open_text + item.sep.canonical.join(texts) + close_text]

    def _call(self, item: Calls, call: ToolCall) -> str:
        where = f"the call of {call.name!r}"
        if not call.complete:
            raise UnrenderableError("it was cut off", where=where, hint="Remove incomplete calls from the history.")
        try:
            arguments = normalize_json(call.function.arguments)
            if not arguments.startswith("{"):
                raise UnrepresentableError("the arguments are not an object")
            text = self._node(item.call, call, arguments)
        except UnrepresentableError as refusal:
            raise UnrenderableError(str(refusal), where=where) from refusal
        except ValueError as refusal:
            raise UnrenderableError(f"the arguments are not JSON ({refusal})", where=where) from refusal
        self._count += 1
        return text

    def _node(self, node: Node, call: ToolCall, arguments: str) -> str:
        match node:
            case Lit() | Space():
                return node.canonical
            case Seq(parts):
                return "".join(self._node(part, call, arguments) for part in parts)
            case Slot.NAME:
                return call.name
            case Slot.ID | HeaderId():
                return self._id(call)
            case Args():
                return _arguments(node, arguments)
            case Envelope():
                return self._envelope(node, call, arguments)
            case Keyed():
                return "{" + dumps(call.name) + ": " + arguments + "}"
            case Fields():
                return write_fields(node, call.name, arguments, self._offer)
            case _:
                raise UnrenderableError("a call cannot contain this node", where=str(node))

    def _id(self, call: ToolCall) -> str:
        policy = self._format.ids
        if not call.id:
            return policy.make(call.name, self._count)
        if not policy.fits(call.id, call.name):
            raise UnrenderableError(
                f"the id {call.id!r} does not match this family's form ({policy.name})",
                where=f"the call of {call.name!r}",
                hint="Give the call an id in that form, or an empty id to have one generated.",
            )
        return call.id

    def _envelope(self, node: Envelope, call: ToolCall, arguments: str) -> str:
        values = {Slot.NAME: lambda: dumps(call.name), Slot.ARGUMENTS: lambda: arguments}
        pairs = (
            dumps(entry.key) + ": " + (values[entry.slot]() if entry.slot in values else dumps(self._id(call)))
            for entry in node.entries
        )
        return "{" + ", ".join(pairs) + "}"

    def result(self, node: Node, result: ToolResult) -> str:
        match node:
            case Lit() | Space():
                return node.canonical
            case Seq(parts):
                return "".join(self.result(part, result) for part in parts)
            case Slot.NAME:
                return result.name
            case Slot.ID | HeaderId():
                return result.tool_call_id
            case Body(as_json):
                return neutralize_turns(dumps(result.content)) if as_json else neutralize(result.text, self._format)
            case _:
                raise UnrenderableError("a result cannot contain this node", where=str(node))


def _join_text(parts: Sequence[object]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text | Reasoning))


def _arguments(node: Args, arguments: str) -> str:
    if node.notation is JSON and node.root is OBJECT and not node.sorts_keys:
        return arguments
    items = members(arguments)
    if node.sorts_keys:
        items.sort(key=lambda pair: pair[0])
    notation = node.notation
    if node.root.assign == "=":
        pairs = (bare_key(key, notation) + "=" + write_value(item, notation) for key, item in items)
    else:
        pairs = (write_key(key, notation) + notation.colon + write_value(item, notation) for key, item in items)
    return node.opener + notation.comma.join(pairs) + node.root.close
