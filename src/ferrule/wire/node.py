"""The nodes that describe a family's text: literals and slots, never regexes, because a grammar is generated from them.

Every literal lists its canonical spelling first (the one that is rendered and that the grammar allows), then other
spellings that the parser accepts. A `Turn` is one assistant turn: reasoning, text and calls in the family's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ferrule.schema.notation import (
    JSON,
    JSON_COMPACT,
    KEYWORDS,
    OBJECT,
    PYTHON,
    PYTHON_COMPACT,
    PYTHON_DOUBLE_QUOTED,
    PYTHON_JSON_OBJECTS,
    Container,
    Notation,
    token_quoted,
)

__all__ = [
    "ARGS", "BODY", "ID", "JSON", "JSON_COMPACT", "KEY", "KEYWORDS", "KIND", "NAME", "OBJECT", "PYTHON",
    "PYTHON_COMPACT", "PYTHON_DOUBLE_QUOTED", "PYTHON_JSON_OBJECTS", "THINK_TAGS", "VALUE", "Args", "Body",
    "CallNode", "Calls", "Entry", "Envelope", "Fields", "Free", "HeaderId", "Item", "Keyed", "Kind", "Lit", "Node",
    "Seq", "Slot", "Space", "Think", "Turn", "calls", "closer", "envelope", "fields", "free", "keyword_args", "lit",
    "literal_args", "opener", "seq", "space", "think", "token_quoted", "turn",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lit:
    """Fixed text, in one or more spellings."""

    spellings: tuple[str, ...]
    may_be_missing: bool = False

    @property
    def canonical(self) -> str:
        return self.spellings[0]


@dataclass(frozen=True, slots=True)
class Space:
    """White space that belongs to the markup: rendered as given, parsed as any amount of white space or none."""

    canonical: str = ""


class Slot(Enum):
    """Positions that a call, an argument or a result fills in."""

    NAME = "name"
    ID = "id"
    ARGUMENTS = "arguments"
    KEY = "key"
    VALUE = "value"
    KIND = "kind"


NAME, ID, KEY, VALUE, KIND = Slot.NAME, Slot.ID, Slot.KEY, Slot.VALUE, Slot.KIND


@dataclass(frozen=True, slots=True)
class HeaderId:
    """Name and id in one text: the whole header is the call's id and contains the name (`functions.get_weather:0`)."""

    prefix: str
    sep: str


@dataclass(frozen=True, slots=True)
class Args:
    """All arguments in one value, in a notation, between the brackets of `root`."""

    notation: Notation = JSON
    opener: str = "{"
    root: Container = OBJECT
    sorts_keys: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of an envelope and the slot it holds; `also` are other keys that models write instead."""

    key: str
    slot: Slot
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """A JSON object around the name and the arguments. Its keys have any order; unknown keys become diagnostics.

    `reads_bare_keys`: keys without quotes are accepted too, here and in the arguments.
    """

    entries: tuple[Entry, ...]
    reads_bare_keys: bool = False

    @property
    def has_id(self) -> bool:
        return any(entry.slot is Slot.ID for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Keyed:
    """A JSON object whose only key is the tool's name and whose value is its arguments."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A word in the markup that gives a value's type: `types` are its JSON types; the value is raw text if `is_raw`."""

    word: str
    types: tuple[str, ...]
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """One element per argument. Values are raw text, typed by the schema or by the KIND written beside them.

    `kinds` are the words of the KIND slot; with none, only the schema gives the type. `quote` is a pair of markers for
    values that contain one of `quote_when`. `python_literals` also accepts the output of Python's repr.
    """

    field: Seq
    sep: Lit
    kinds: tuple[Kind, ...] = ()
    quote: tuple[str, str] | None = None
    quote_when: str = ""
    python_literals: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """A result's content; `as_json` writes it as JSON (text as a JSON string)."""

    as_json: bool = False


BODY = Body()
ARGS = Args()


@dataclass(frozen=True, slots=True)
class Seq:
    """Nodes in a row."""

    parts: tuple[Node, ...]


Node: TypeAlias = Lit | Space | Slot | HeaderId | Args | Envelope | Keyed | Fields | Body | Seq
CallNode: TypeAlias = Node


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning between two markers. `calls_inside`: a call may open before the reasoning is closed."""

    open: Lit
    close: Lit
    calls_inside: bool = True


@dataclass(frozen=True, slots=True)
class Free:
    """Text for the user, bare or between two markers. With two of them in one turn, the last is for the final text."""

    open: Lit | None = None
    close: Lit | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """One or more calls: `open`, call, `sep`, call, `close`.

    `glue` separates text from calls and belongs to neither. `only_offered`: a call to a tool that is not offered is
    parsed as text; this is for formats whose opening is too common to be a marker. `is_loose`: white space between the
    pieces is ignored. `max_calls`: how many calls the family's own template accepts in one turn.
    """

    call: CallNode
    sep: Lit
    open: Lit | None = None
    close: Lit | None = None
    glue: Lit | None = None
    is_loose: bool = True
    only_offered: bool = False
    max_calls: int | None = None


Item: TypeAlias = Think | Free | Calls


@dataclass(frozen=True, slots=True)
class Turn:
    """One assistant turn.

    `items` are rendered in this order; the parser accepts them in any order and number. `also` are calls in other
    shapes and `more` other items that the parser accepts too. `between` joins items (message headers). With
    `is_ordered` False, parts are rendered in the reply's own order. `fence` opens and closes quoted code, in which
    nothing is parsed as a call.
    """

    items: tuple[Item, ...]
    also: tuple[Calls, ...] = ()
    between: Lit | None = None
    is_ordered: bool = True
    fence: str = ""
    more: tuple[Item, ...] = ()


def lit(*spellings: str) -> Lit:
    """A literal; the first spelling is the canonical one."""
    return Lit(spellings)


def closer(*spellings: str) -> Lit:
    """A closing literal that the parser does not require: what precedes it ends by itself, and models may omit it."""
    return Lit(spellings, may_be_missing=True)


def opener(*spellings: str) -> Lit:
    """An opening literal that the parser does not require: what follows has a marker, so models sometimes omit it."""
    return Lit(spellings, may_be_missing=True)


def space(canonical: str = "") -> Space:
    """White space of the markup: rendered as given, parsed as any run of white space, also none."""
    return Space(canonical)


def _lit(text: str | Lit) -> Lit:
    return text if isinstance(text, Lit) else lit(text)


def _maybe(text: str | Lit | None) -> Lit | None:
    return None if text is None else _lit(text)


def seq(*parts: Node | str) -> Seq:
    """Parts that follow each other; a string is a literal."""
    return Seq(tuple(lit(part) if isinstance(part, str) else part for part in parts))


def literal_args(notation: Notation, *, sorts_keys: bool = False) -> Args:
    """All arguments of a call as one value in a notation, such as `JSON` or `PYTHON`."""
    return Args(notation, sorts_keys=sorts_keys)


def keyword_args(notation: Notation) -> Args:
    """All arguments of a call as keyword arguments: `(city="Paris", days=2)`."""
    return Args(notation, "(", KEYWORDS)


def envelope(*entries: Entry) -> Envelope:
    """A JSON object around the name and the arguments of a call; its keys are parsed in any order."""
    return Envelope(entries)


def fields(
    field: Seq,
    sep: str | Lit = "",
    *,
    kinds: tuple[Kind, ...] = (),
    quote: tuple[str, str] | None = None,
    quote_when: str = "",
    python_literals: bool = False,
) -> Fields:
    """One element for each argument, with its value as raw text."""
    return Fields(field, _lit(sep), kinds, quote, quote_when, python_literals)


def think(open: str | Lit, close: str | Lit, *, calls_inside: bool = True) -> Think:
    """Reasoning between an opening and a closing text."""
    return Think(_lit(open), _lit(close), calls_inside)


THINK_TAGS = think(
    lit("<think>\n", "<think>"),
    lit("\n</think>\n\n", "\n</think>\n", "\n</think>", "</think>\n\n", "</think>\n", "</think>"),
)
"""The reasoning tags of most families, with the newlines that belong to them."""


def free(open: str | Lit | None = None, close: str | Lit | None = None) -> Free:
    """Visible text, between an opening and a closing text if there are any."""
    return Free(_maybe(open), _maybe(close))


def calls(
    call: CallNode,
    *,
    open: str | Lit | None = None,
    sep: str | Lit = "",
    close: str | Lit | None = None,
    glue: str | Lit | None = None,
    is_loose: bool = True,
    only_offered: bool = False,
    max_calls: int | None = None,
) -> Calls:
    """The calls of a turn, and what separates and surrounds them."""
    return Calls(call, _lit(sep), _maybe(open), _maybe(close), _maybe(glue), is_loose, only_offered, max_calls)


def turn(
    *items: Item,
    also: tuple[Calls, ...] = (),
    between: str | Lit | None = None,
    is_ordered: bool = True,
    fence: str = "",
) -> Turn:
    """A model's whole turn: reasoning, text and calls, in the order in which the family writes them."""
    return Turn(items, also, _maybe(between), is_ordered, fence)
