"""Name how a format encodes arguments ("JSON", "Python", "tagged", ...), from its definition."""

from __future__ import annotations

from collections.abc import Iterator

from ferrule.schema.notation import JSON
from ferrule.wire.format import Format
from ferrule.wire.node import Args, Envelope, Fields, Keyed, Node, Seq


def encoding_of(format: Format) -> str:
    """The name of the format's argument encoding: "JSON", "Python", "tagged", "typed tags", "typed literal", "none"."""
    for node in _pieces(format.calls.call):
        match node:
            case Envelope() | Keyed():
                return "JSON"
            case Fields():
                return "typed tags" if node.kinds else "tagged"
            case Args():
                return _notation(node)
            case _:
                pass
    return "none"


def _notation(node: Args) -> str:
    if node.root.assign == "=":
        return "Python"
    return "JSON" if node.notation.quotes == JSON.quotes else "typed literal"


def _pieces(node: Node) -> Iterator[Node]:
    if isinstance(node, Seq):
        for part in node.parts:
            yield from _pieces(part)
    else:
        yield node
