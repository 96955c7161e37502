"""Render: a reply, or results, as the family writes them. The walk that is the parser's inverse.

What is rendered is read back before it is handed out: a reply that would come back as something else (a marker inside
text, a closer inside a raw value) is refused with the part named, so a rendering is never a forgery.
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
from ferrule.schema.reader import respell
from ferrule.schema.value_text import UnspellableError, bare_key, members, spell_key, spell_value
from ferrule.wire.fields_writer import spell_fields
from ferrule.wire.format import Format
from ferrule.wire.neutral_text import neutral
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
from ferrule.wire.round_trip_check import check_reads_back
from ferrule.wire.tool_offer import Offered


def render(
    format: Format, reply: Reply, tools: Iterable[ToolDefinition] | None = None, *, calls_before: int = 0
) -> str:
    """The text of a reply. `UnrenderableError` when the format has no spelling for it."""
    offered = tuple(tools) if tools is not None else None
    text = _Renderer(format, Offered(offered), calls_before).turn(reply)
    check_reads_back(format, reply, text, offered, calls_before)
    return text


def render_results(format: Format, results: Sequence[ToolResult]) -> str:
    """The text that brings results back to the model. Markup inside a result is broken, so that it stays a result."""
    shape = format.result
    renderer = _Renderer(format, Offered(None), 0)
    return shape.open + shape.sep.join(renderer.result(shape.each, result) for result in results) + shape.close


class _Renderer:
    def __init__(self, format: Format, offered: Offered, calls_before: int) -> None:
        self._format = format
        self._offered = offered
        self._count = calls_before

    def turn(self, reply: Reply) -> str:
        between = self._format.reply.between
        written: list[str] = []
        for block in blocks(self._format.reply, reply):
            if isinstance(block.item, Calls) and block.follows_text and block.item.glue:
                written[-1] += block.item.glue.canonical
            written.extend(self._block(block))
        return (between.canonical if between else "").join(written)

    def _block(self, block: Block) -> list[str]:
        item = block.item
        match item:
            case Think(open, close):
                return [open.canonical + _joined(block.parts) + close.canonical]
            case Free(open, close):
                before = open.canonical if open else ""
                after = close.canonical if close else ""
                return [before + _joined(block.parts) + after]
            case Calls():
                made = [self._call(item, part) for part in block.parts if isinstance(part, ToolCall)]
                if self._format.reply.between:
                    return made
                opened = item.open.canonical if item.open else ""
                closed = item.close.canonical if item.close else ""
                return [opened + item.sep.canonical.join(made) + closed]

    def _call(self, item: Calls, call: ToolCall) -> str:
        where = f"the call of {call.name!r}"
        if not call.complete:
            raise UnrenderableError("it was cut off", where=where, hint="Leave incomplete calls out of the history.")
        try:
            arguments = respell(call.function.arguments)
            if not arguments.startswith("{"):
                raise UnspellableError("the arguments are not an object")
            text = self._node(item.call, call, arguments)
        except UnspellableError as refusal:
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
                return spell_fields(node, call.name, arguments, self._offered)
            case _:
                raise UnrenderableError("this node has no place in a call", where=str(node))

    def _id(self, call: ToolCall) -> str:
        policy = self._format.ids
        if not call.id:
            return policy.make(call.name, self._count)
        if not policy.fits(call.id, call.name):
            raise UnrenderableError(
                f"the id {call.id!r} is not of this family's form ({policy.name})",
                where=f"the call of {call.name!r}",
                hint="Give the call an id in that form, or an empty one to have it made.",
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
                return dumps(result.content) if as_json else neutral(result.text, self._format)
            case _:
                raise UnrenderableError("this node has no place in a result", where=str(node))


def _joined(parts: Sequence[object]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text | Reasoning))


def _arguments(node: Args, arguments: str) -> str:
    if node.notation is JSON and node.root is OBJECT and not node.sorts_keys:
        return arguments
    items = members(arguments)
    if node.sorts_keys:
        items.sort(key=lambda pair: pair[0])
    notation = node.notation
    if node.root.assign == "=":
        pairs = (bare_key(key) + "=" + spell_value(item, notation) for key, item in items)
    else:
        pairs = (spell_key(key, notation) + notation.colon + spell_value(item, notation) for key, item in items)
    return node.opener + notation.comma.join(pairs) + node.root.close
