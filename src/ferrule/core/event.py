"""Event: one step of a streaming answer. A whole reply is the fold of its events and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from ferrule.core.receipt import Receipt


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of what a reader sees."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what the model writes for itself."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call's name and id are known. `index` counts calls within one reply from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of a call's arguments. All deltas of a call joined are always a prefix of its final JSON text."""

    index: int
    json: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A call ended. When it is not complete it must never be run; a diagnostic beside it says why."""

    index: int
    complete: bool = True
    receipt: Receipt | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something unexpected in the model's output. `text` holds the characters that landed nowhere else."""

    code: str
    message: str
    text: str = ""
    index: int | None = None


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int = 0
    completion_tokens: int = 0


def added(one: Usage | None, other: Usage | None) -> Usage | None:
    """What two answers took together; where only one says, that one's."""
    if one is None or other is None:
        return one or other
    return Usage(one.prompt_tokens + other.prompt_tokens, one.completion_tokens + other.completion_tokens)


@dataclass(frozen=True, slots=True)
class Finish:
    """The answer is over. LENGTH wins over TOOL_CALLS: a cut-off answer never looks finished."""

    reason: FinishReason
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class RuleShown:
    """What an answer is written from and held to: it comes before anything is written, where the request `shows_wire`.

    An engine that holds the model to no rule of ours has none to show.
    """

    format: str
    target: str
    grammar: str
    prompt: str
    triggers: tuple[str, ...] = ()
    """Where there are any, the grammar holds from the first of them on, and what is written before is free."""


@dataclass(frozen=True, slots=True)
class WireText:
    """More of the answer as it was written, before anything is read out of it, where the request `shows_wire`.

    It is said once more beside the events that are read out of it, and counts for nothing. `is_forced`: the rule left
    no choice, so it was not generated.
    """

    text: str
    is_forced: bool = False


SHOWN: frozenset[type] = frozenset({RuleShown, WireText})
"""The events that are for those who debug a model: whoever acts on an answer passes over them."""

Event: TypeAlias = (
    TextDelta | ReasoningDelta | CallStart | ArgumentsDelta | CallEnd | Diagnostic | Finish | RuleShown | WireText
)
