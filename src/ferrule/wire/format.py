"""Format: how a model family writes tool calls, as data. The parser, the renderer and the rules are derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ferrule.core.call import ToolCall
from ferrule.core.ids import ANY_ID, IdPolicy
from ferrule.core.reply import Reply
from ferrule.schema.notation import JSON
from ferrule.wire.node import Args, Calls, Envelope, Fields, Keyed, Node, Seq, Turn, seq

__all__ = ["PARIS", "ROME", "Declaration", "Example", "Format", "Results", "results"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """How tools are shown to the model when the chat template does not: markers around one JSON object per tool.

    `as_function` wraps each tool as {"type": "function", "function": ...}. The instruction on how to call a tool is not
    part of this: it is an example call that the format itself renders.
    """

    open: str = "<tools>\n"
    close: str = "\n</tools>"
    sep: str = "\n"
    as_function: bool = True


@dataclass(frozen=True, slots=True)
class Results:
    """How tool results are sent to the model: the message role that carries them, and the text of each."""

    each: Seq
    sep: str = "\n"
    role: str = "tool"
    open: str = ""
    close: str = ""


def results(*parts: Node | str, sep: str = "\n", role: str = "tool", open: str = "", close: str = "") -> Results:
    """Build `Results`; plain strings become literals."""
    return Results(seq(*parts), sep, role, open, close)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Format:
    """How one family of models writes tool calls, reasoning and text.

    `reply` is the tree of nodes that the parser, the renderer and the rule builder walk. `markers` are texts that a
    chat template of this family contains; `beats` names formats whose markers such a template also contains. `tokens`
    are the pieces of markup that are single tokens in the vocabulary. `stops` are tokens that end a turn and may remain
    in the text.

    Example:
        from ferrule.formats import get_format, parse

        hermes = get_format("hermes")
        print(hermes.name, hermes.about)
        parse(hermes, '<tool_call>{"name": "ping", "arguments": {}}</tool_call>').calls
    """

    name: str
    about: str
    markers: tuple[str, ...]
    reply: Turn
    result: Results
    declaration: Declaration = Declaration()
    ids: IdPolicy = ANY_ID
    tokens: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    beats: tuple[str, ...] = ()

    @property
    def calls(self) -> Calls:
        """The node for this format's calls, in the shape that is rendered."""
        return next(item for item in self.reply.items if isinstance(item, Calls))


@dataclass(frozen=True, slots=True)
class Example:
    """A text as a model of the family writes it, and the reply that it parses to.

    `is_canonical`: rendering the reply gives this text again.
    """

    format: str
    text: str
    reply: Reply
    is_canonical: bool = True


PARIS = ToolCall.of("get_weather", {"city": "Paris", "days": 2})
ROME = ToolCall.of("get_weather", {"city": "Rome"})
"""The two calls used in every family's examples."""


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
