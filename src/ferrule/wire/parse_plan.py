"""ParsePlan: what the parser looks for, derived once from a Format.

The parser's outer loop is always in one mode: text, reasoning or fenced code. For each mode the plan lists the literals
that matter and what each one means. Nothing here is specific to a family.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from ferrule.wire.format import Format
from ferrule.wire.node import (
    Args,
    Calls,
    Envelope,
    Fields,
    Free,
    HeaderId,
    Item,
    Keyed,
    Lit,
    Node,
    Seq,
    Slot,
    Space,
    Think,
)
from ferrule.wire.tape import Stops

# A shorter closer ("]", "}", ")") is not a marker: it occurs in any prose.
_MARKER_SIZE = 3


class LiteralMeaning(Enum):
    """What a literal means to the parser's outer loop."""

    CALLS = "calls"
    THINK = "think"
    END_THINK = "end_think"
    MARKUP = "markup"
    STRAY = "stray"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class LiteralAction:
    """What the parser does at a literal."""

    meaning: LiteralMeaning
    item: Item | None = None
    skip: int = 0
    """How many of the literal's first characters are glue before the calls."""


@dataclass(frozen=True, slots=True)
class ParseMode:
    """One mode of the parser: the literals to stop at, and the actions for each, in order of preference."""

    stops: Stops
    actions: dict[str, tuple[LiteralAction, ...]]


@dataclass(frozen=True, slots=True)
class ParsePlan:
    """Everything that the parser needs to know about a format."""

    text_mode: ParseMode
    think_modes: dict[int, ParseMode]
    """Keyed by the id() of the Think node."""
    fence_mode: ParseMode
    fence: str
    resync: dict[int, Stops]
    """Where to resume after a malformed call, keyed by the id() of the Calls node."""
    text_follows_calls: bool
    writes_ids: bool


def _calls_of(form: Format) -> tuple[Calls, ...]:
    return (*(item for item in form.reply.items if isinstance(item, Calls)), *form.reply.also)


def first(node: Node) -> tuple[str, ...] | None:
    """The texts that a node can start with; None if it starts with a slot, which can be anything."""
    match node:
        case Lit(spellings):
            return spellings
        case Envelope() | Keyed():
            return ("{",)
        case Args(_, opener):
            return (opener,)
        case Fields(field):
            return first(field)
        case Seq(parts):
            return first_of(parts)
        case _:
            return None


def first_of(parts: tuple[Node, ...]) -> tuple[str, ...] | None:
    """The texts that nodes in a row can start with. White space, fields and optional literals may be absent."""
    starts: list[str] = []
    for part in parts:
        if isinstance(part, Space) or part is Slot.KIND:
            continue
        begin = first(part)
        if begin is None:
            return tuple(starts) or None
        starts.extend(begin)
        if not isinstance(part, Fields) and not (isinstance(part, Lit) and part.may_be_missing):
            return tuple(starts)
    return tuple(starts) or None


def opening_texts(calls: Calls) -> tuple[str, ...]:
    """The texts that can open a section of calls."""
    if calls.open is None:
        begin = first(calls.call)
        if begin is None:
            raise ValueError("calls must begin with a literal")
        return begin
    if not calls.open.may_be_missing:
        return calls.open.spellings
    return (*calls.open.spellings, *(first(calls.call) or ()))


def closers(node: Node) -> tuple[str, ...]:
    """The texts that end a call, as far as they are long enough to be markers."""
    last = node.parts[-1] if isinstance(node, Seq) and node.parts else node
    return tuple(s for s in last.spellings if is_marker(s)) if isinstance(last, Lit) else ()


def is_marker(text: str) -> bool:
    """Whether a text is long enough to be recognised anywhere in a reply."""
    return len(text.strip()) >= _MARKER_SIZE


def has_id(node: Node) -> bool:
    match node:
        case Slot.ID | HeaderId():
            return True
        case Envelope():
            return node.has_id
        case Seq(parts):
            return any(has_id(part) for part in parts)
        case _:
            return False


class _Table:
    def __init__(self) -> None:
        self.actions: dict[str, list[LiteralAction]] = {}

    def add(self, spelling: str, action: LiteralAction) -> None:
        if spelling and action not in (row := self.actions.setdefault(spelling, [])):
            row.append(action)

    def add_calls(self, calls: Calls) -> None:
        glues = calls.glue.spellings if calls.glue else ()
        for begin in opening_texts(calls):
            self.add(begin, LiteralAction(LiteralMeaning.CALLS, calls))
            for glue in glues:
                self.add(glue + begin, LiteralAction(LiteralMeaning.CALLS, calls, len(glue)))

    def add_lit(self, literal: Lit | None, action: LiteralAction) -> None:
        for spelling in literal.spellings if literal else ():
            self.add(spelling, action)

    def mode(self) -> ParseMode:
        return ParseMode(Stops(self.actions), {text: tuple(row) for text, row in self.actions.items()})


@lru_cache(maxsize=512)
def plan_of(form: Format) -> ParsePlan:
    """The plan of a format. Cached: formats are compared by identity."""
    turn = form.reply
    all_calls = _calls_of(form)
    items = (*turn.items, *turn.more)
    thinks = tuple(item for item in items if isinstance(item, Think))
    text = _Table()
    for item in all_calls:
        text.add_calls(item)
    for item in thinks:
        text.add_lit(item.open, LiteralAction(LiteralMeaning.THINK, item))
    markup = LiteralAction(LiteralMeaning.MARKUP)
    for item in items:
        if isinstance(item, Free):
            text.add_lit(item.open, markup)
            text.add_lit(item.close, markup)
    text.add_lit(turn.between, markup)
    for stop in form.stops:
        text.add(stop, markup)
    if turn.fence:
        text.add(turn.fence, LiteralAction(LiteralMeaning.FENCE))
    # Added last, so that a literal that also opens something keeps that meaning.
    for item in thinks:
        text.add_lit(item.close, LiteralAction(LiteralMeaning.STRAY))
    for item in all_calls:
        for spelling in _stray(item):
            text.add(spelling, LiteralAction(LiteralMeaning.STRAY))
    fenced = _Table()
    fenced.add(turn.fence, LiteralAction(LiteralMeaning.FENCE))
    return ParsePlan(
        text_mode=text.mode(),
        think_modes={id(item): _think_mode(form, item, all_calls) for item in thinks},
        fence_mode=fenced.mode(),
        fence=turn.fence,
        resync={id(item): Stops((*_stray(item), *(s for s in text.actions if is_marker(s)))) for item in all_calls},
        text_follows_calls=_text_follows_calls(turn.items) or not turn.is_ordered,
        writes_ids=has_id(form.calls.call),
    )


def _think_mode(form: Format, item: Think, all_calls: tuple[Calls, ...]) -> ParseMode:
    table = _Table()
    table.add_lit(item.close, LiteralAction(LiteralMeaning.END_THINK))
    if item.calls_inside:
        for calls in all_calls:
            # A bare opening ("{", "[") inside reasoning is prose.
            if not calls.only_offered:
                table.add_calls(calls)
    for stop in form.stops:
        table.add(stop, LiteralAction(LiteralMeaning.MARKUP))
    return table.mode()


def _stray(calls: Calls) -> tuple[str, ...]:
    section = tuple(s for s in calls.close.spellings if is_marker(s)) if calls.close else ()
    return tuple(s for s in (*section, *closers(calls.call)) if "`" not in s)


def _text_follows_calls(items: tuple[Item, ...]) -> bool:
    kinds = [type(item) for item in items]
    return Calls in kinds and Free in kinds[kinds.index(Calls) :]
