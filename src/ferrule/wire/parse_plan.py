"""Plan: what the parser has to look for, derived once from a Format.

For each mode of the outer walk (text, reasoning, fenced code) it lists the literals that mean something there and what
they mean. Nothing here is written per family.
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
from ferrule.wire.stops import Stops

# A closer shorter than this ("]", "}", ")") is no marker: it stands in any prose.
_MARKER_SIZE = 3


class Meaning(Enum):
    """What a literal does in the outer walk."""

    CALLS = "calls"
    THINK = "think"
    END_THINK = "end_think"
    MARKUP = "markup"
    STRAY = "stray"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class Action:
    meaning: Meaning
    item: Item | None = None
    skip: int = 0
    """How many of the literal's characters are glue before the calls."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode of the outer walk: the literals to stop at, and what each means, most wanted first."""

    stops: Stops
    actions: dict[str, tuple[Action, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    text: Mode
    thinking: dict[int, Mode]
    """By the identity of the Think node."""
    fenced: Mode
    fence: str
    resync: dict[int, Stops]
    """By the identity of the Calls node: where to go on after a broken call."""
    text_follows_calls: bool
    writes_ids: bool


def _calls_of(form: Format) -> tuple[Calls, ...]:
    return (*(item for item in form.reply.items if isinstance(item, Calls)), *form.reply.also)


def first(node: Node) -> tuple[str, ...] | None:
    """The texts that a node can start with; None when it starts with a slot, which can be anything."""
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
    """The same for nodes in a row, of which white space, fields and some literals may be absent."""
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


def opening(calls: Calls) -> tuple[str, ...]:
    """The texts that begin a calls item."""
    if calls.open is None:
        begin = first(calls.call)
        if begin is None:
            raise ValueError("calls must begin with a literal")
        return begin
    if not calls.open.may_be_missing:
        return calls.open.spellings
    return (*calls.open.spellings, *(first(calls.call) or ()))


def closers(node: Node) -> tuple[str, ...]:
    """The texts that a call ends with, when they are distinctive."""
    last = node.parts[-1] if isinstance(node, Seq) and node.parts else node
    return tuple(s for s in last.spellings if is_marker(s)) if isinstance(last, Lit) else ()


def is_marker(text: str) -> bool:
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
        self.actions: dict[str, list[Action]] = {}

    def add(self, spelling: str, action: Action) -> None:
        if spelling and action not in (row := self.actions.setdefault(spelling, [])):
            row.append(action)

    def add_calls(self, calls: Calls) -> None:
        glues = calls.glue.spellings if calls.glue else ()
        for begin in opening(calls):
            self.add(begin, Action(Meaning.CALLS, calls))
            for glue in glues:
                self.add(glue + begin, Action(Meaning.CALLS, calls, len(glue)))

    def add_lit(self, literal: Lit | None, action: Action) -> None:
        for spelling in literal.spellings if literal else ():
            self.add(spelling, action)

    def mode(self) -> Mode:
        return Mode(Stops(self.actions), {text: tuple(row) for text, row in self.actions.items()})


@lru_cache(maxsize=512)
def plan_of(form: Format) -> Plan:
    """The plan of a format, made once: formats are compared by identity."""
    turn = form.reply
    every = _calls_of(form)
    read = (*turn.items, *turn.more)
    thinks = tuple(item for item in read if isinstance(item, Think))
    text = _Table()
    for item in every:
        text.add_calls(item)
    for item in thinks:
        text.add_lit(item.open, Action(Meaning.THINK, item))
    markup = Action(Meaning.MARKUP)
    for item in read:
        if isinstance(item, Free):
            text.add_lit(item.open, markup)
            text.add_lit(item.close, markup)
    text.add_lit(turn.between, markup)
    for stop in form.stops:
        text.add(stop, markup)
    if turn.fence:
        text.add(turn.fence, Action(Meaning.FENCE))
    # Last, so that a literal which also opens something keeps that meaning.
    for item in thinks:
        text.add_lit(item.close, Action(Meaning.STRAY))
    for item in every:
        for spelling in _stray(item):
            text.add(spelling, Action(Meaning.STRAY))
    fenced = _Table()
    fenced.add(turn.fence, Action(Meaning.FENCE))
    return Plan(
        text=text.mode(),
        thinking={id(item): _thinking(form, item, every) for item in thinks},
        fenced=fenced.mode(),
        fence=turn.fence,
        resync={id(item): Stops((*_stray(item), *(s for s in text.actions if is_marker(s)))) for item in every},
        text_follows_calls=_text_follows_calls(turn.items) or not turn.is_ordered,
        writes_ids=has_id(form.calls.call),
    )


def _thinking(form: Format, item: Think, every: tuple[Calls, ...]) -> Mode:
    table = _Table()
    table.add_lit(item.close, Action(Meaning.END_THINK))
    if item.calls_inside:
        for calls in every:
            # A bare opening ("{", "[") inside reasoning is prose.
            if not calls.only_offered:
                table.add_calls(calls)
    for stop in form.stops:
        table.add(stop, Action(Meaning.MARKUP))
    return table.mode()


def _stray(calls: Calls) -> tuple[str, ...]:
    section = tuple(s for s in calls.close.spellings if is_marker(s)) if calls.close else ()
    return tuple(s for s in (*section, *closers(calls.call)) if "`" not in s)


def _text_follows_calls(items: tuple[Item, ...]) -> bool:
    kinds = [type(item) for item in items]
    return Calls in kinds and Free in kinds[kinds.index(Calls) :]
