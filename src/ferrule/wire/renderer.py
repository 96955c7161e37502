"""Render a reply, or tool results, as the model family writes them: the inverse of the parser.

Every rendering is parsed again before it is returned. A reply that would be parsed as something else (a marker inside
text, a closing marker inside a raw value) raises an error that names the part, so text can never pose as a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.json_text import dumps
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.errors import UnrenderableError
from ferrule.schema.notation import JSON, OBJECT
from ferrule.schema.reader import normalize_json
from ferrule.schema.value_text import UnrepresentableError, bare_key, members, write_key, write_value
from ferrule.wire.fields_writer import write_fields
from ferrule.wire.format import Format
from ferrule.wire.neutral_text import neutralize
from ferrule.wire.node import (
    Args,
    Body,
    Calls,
    Envelope,
    Fields,
    Free,
    HeaderId,
    Keyed,
    Lit,
    Node,
    Seq,
    Slot,
    Space,
    Think,
)
from ferrule.wire.part_order import Block, blocks
from ferrule.wire.round_trip_check import check_round_trip
from ferrule.wire.tool_offer import ToolOffer


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
                return dumps(result.content) if as_json else neutralize(result.text, self._format)
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
        pairs = (bare_key(key) + "=" + write_value(item, notation) for key, item in items)
    else:
        pairs = (write_key(key, notation) + notation.colon + write_value(item, notation) for key, item in items)
    return node.opener + notation.comma.join(pairs) + node.root.close
