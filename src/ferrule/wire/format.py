"""Format: a family's whole definition, as data. Everything else about a family is derived from it."""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.core.call import ToolCall
from ferrule.core.ids import ANY_ID, IdPolicy
from ferrule.core.reply import Reply
from ferrule.wire.node import Calls, Node, Seq, Turn, seq

__all__ = ["PARIS", "ROME", "Declaration", "Example", "Format", "Results", "results"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """How tools are shown to the model when no chat template does it: marks around one JSON object per tool.

    `as_function` wraps each tool as {"type": "function", "function": ...}. How to call them is not written here: it is
    a made-up call rendered by the format itself.
    """

    open: str = "<tools>\n"
    close: str = "\n</tools>"
    sep: str = "\n"
    as_function: bool = True


@dataclass(frozen=True, slots=True)
class Results:
    """How results go back to the model: the role that carries them, and each one's text."""

    each: Seq
    sep: str = "\n"
    role: str = "tool"
    open: str = ""
    close: str = ""


def results(*parts: Node | str, sep: str = "\n", role: str = "tool", open: str = "", close: str = "") -> Results:
    return Results(seq(*parts), sep, role, open, close)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Format:
    """One wire format.

    `marks` are texts that a chat template of this family contains; `beats` names formats whose marks such a template
    has too. `tokens` are the pieces of the markup for which the vocabulary has a token of its own. `stops` are tokens
    that end a turn and may be left in the text.
    """

    name: str
    about: str
    marks: tuple[str, ...]
    reply: Turn
    result: Results
    declaration: Declaration = Declaration()
    ids: IdPolicy = ANY_ID
    tokens: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    beats: tuple[str, ...] = ()

    @property
    def calls(self) -> Calls:
        """The canonical shape of this format's calls."""
        return next(item for item in self.reply.items if isinstance(item, Calls))


@dataclass(frozen=True, slots=True)
class Example:
    """A text as a model of the family writes it, and the reply that it means; `is_canonical` if it renders back."""

    format: str
    text: str
    reply: Reply
    is_canonical: bool = True


PARIS = ToolCall.of("get_weather", {"city": "Paris", "days": 2})
ROME = ToolCall.of("get_weather", {"city": "Rome"})
"""The two calls that every family's examples show."""
