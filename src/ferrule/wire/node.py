"""The nodes that a family's text is made of: literals and slots, never regexes, since a grammar must come out of them.

Every literal lists its canonical spelling first (what is rendered and constrained to) and then the spellings that are
read as well. A `Turn` is what a model writes in one go: reasoning, text and calls in the family's order.
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
    """White space that belongs to the markup: written as given, read as any run of it, also none."""

    canonical: str = ""


class Slot(Enum):
    """Places that a call, an argument or a result fills in."""

    NAME = "name"
    ID = "id"
    ARGUMENTS = "arguments"
    KEY = "key"
    VALUE = "value"
    KIND = "kind"


NAME, ID, KEY, VALUE, KIND = Slot.NAME, Slot.ID, Slot.KEY, Slot.VALUE, Slot.KIND


@dataclass(frozen=True, slots=True)
class HeaderId:
    """Name and id in one: the whole header is the call's id, the name stands inside (`functions.get_weather:0`)."""

    prefix: str
    sep: str


@dataclass(frozen=True, slots=True)
class Args:
    """All arguments at once, in a notation, between the brackets of `root`."""

    notation: Notation = JSON
    opener: str = "{"
    root: Container = OBJECT
    sorts_keys: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of an envelope and what it holds; `also` are other keys that models write instead."""

    key: str
    slot: Slot
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """A JSON object around the name and the arguments. Read with its keys in any order, unknown keys as diagnostics.

    `reads_bare_keys`: keys without quotes are read too, here and in the arguments.
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
    """A word that says how a value is written: `types` are the JSON types it stands for, raw text if `is_raw`."""

    word: str
    types: tuple[str, ...]
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """One element per argument. Values are raw text, read by the schema or by the KIND written beside them.

    `kinds` are the words of the KIND slot; with none, values are typed by the schema alone. `quote` is a pair of marks
    for values that contain one of `quote_when`. `python_literals` also reads what Python's repr prints.
    """

    field: Seq
    sep: Lit
    kinds: tuple[Kind, ...] = ()
    quote: tuple[str, str] | None = None
    quote_when: str = ""
    python_literals: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """A result's content; `as_json` quotes it as a JSON string or prints it as JSON."""

    as_json: bool = False


BODY = Body()
ARGS = Args()


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple[Node, ...]


Node: TypeAlias = Lit | Space | Slot | HeaderId | Args | Envelope | Keyed | Fields | Body | Seq
CallNode: TypeAlias = Node


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning between two marks. `calls_inside`: a call may open before the reasoning is closed."""

    open: Lit
    close: Lit
    calls_inside: bool = True


@dataclass(frozen=True, slots=True)
class Free:
    """Text for the reader, bare or between two marks. With two of them in one turn, the last is for the final text."""

    open: Lit | None = None
    close: Lit | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """One or more calls: `open`, call, `sep`, call, `close`.

    `glue` stands between text and calls and belongs to neither. `only_offered`: what names no offered tool is text,
    for formats whose opening is too plain to be a marker. `is_loose`: white space between the pieces is passed over.
    `max_calls`: what the family's own template takes in one turn.
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
    """What a model writes in one go.

    `items` in their canonical order are what is rendered; they are read in any order and any number. `also` are calls
    in other shapes, `more` other items that are read too. `between` joins items (message headers). `is_ordered` False:
    parts are written in the order in which the reply has them. `fence` marks quoted code, in which nothing is a call.
    """

    items: tuple[Item, ...]
    also: tuple[Calls, ...] = ()
    between: Lit | None = None
    is_ordered: bool = True
    fence: str = ""
    more: tuple[Item, ...] = ()


def lit(*spellings: str) -> Lit:
    return Lit(spellings)


def closer(*spellings: str) -> Lit:
    """A literal after something that delimits itself, so that a model may forget it."""
    return Lit(spellings, may_be_missing=True)


def opener(*spellings: str) -> Lit:
    """A literal before something that is marked anyway, so that a model may forget it."""
    return Lit(spellings, may_be_missing=True)


def space(canonical: str = "") -> Space:
    return Space(canonical)


def _lit(text: str | Lit) -> Lit:
    return text if isinstance(text, Lit) else lit(text)


def _maybe(text: str | Lit | None) -> Lit | None:
    return None if text is None else _lit(text)


def seq(*parts: Node | str) -> Seq:
    return Seq(tuple(lit(part) if isinstance(part, str) else part for part in parts))


def literal_args(notation: Notation, *, sorts_keys: bool = False) -> Args:
    return Args(notation, sorts_keys=sorts_keys)


def keyword_args(notation: Notation) -> Args:
    """`(city="Paris", days=2)`."""
    return Args(notation, "(", KEYWORDS)


def envelope(*entries: Entry) -> Envelope:
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
    return Fields(field, _lit(sep), kinds, quote, quote_when, python_literals)


def think(open: str | Lit, close: str | Lit, *, calls_inside: bool = True) -> Think:
    return Think(_lit(open), _lit(close), calls_inside)


THINK_TAGS = think(
    lit("<think>\n", "<think>"),
    lit("\n</think>\n\n", "\n</think>\n", "\n</think>", "</think>\n\n", "</think>\n", "</think>"),
)
"""The tags that most families reason in, with the newlines that most of them own."""


def free(open: str | Lit | None = None, close: str | Lit | None = None) -> Free:
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
    return Calls(call, _lit(sep), _maybe(open), _maybe(close), _maybe(glue), is_loose, only_offered, max_calls)


def turn(
    *items: Item,
    also: tuple[Calls, ...] = (),
    between: str | Lit | None = None,
    is_ordered: bool = True,
    fence: str = "",
) -> Turn:
    return Turn(items, also, _maybe(between), is_ordered, fence)
