"""Moment: one line of a conversation's timeline, and how its title is made. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ferrule.core.event import Usage
from ferrule.core.visible_text import exactly

_LONGEST = 120
_READ = 8 * _LONGEST


class Kind(StrEnum):
    """What a moment is. Those of one instant stand in this order.

    HISTORY: what the caller brought along, said before. LIMIT: the loop's own words, when a limit was reached. RETRY: a
    tool that runs again after an error. UNKNOWN: one of which nobody can say whether it ran. REFUSED: a call that was
    not run. TAKEN_OVER: a process died, and another went on.
    """

    TAKEN_OVER = "taken_over"
    HISTORY = "history"
    SYSTEM = "system"
    USER = "user"
    LIMIT = "limit"
    MODEL = "model"
    APPROVAL = "approval"
    TOOL = "tool"
    RETRY = "retry"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    CANCEL = "cancel"
    FAILED = "failed"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {kind: rank for rank, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Moment:
    """`at` is when it began, in Unix seconds; `seconds`, how long it took; None where nobody knows, or it goes on."""

    at: float
    kind: Kind
    title: str
    seconds: float | None = None
    call_id: str = ""
    tool: str = ""
    approval: str = ""
    tokens: Usage | None = None
    bytes: int | None = None
    """Of what was said, written or given; of an approval, of the arguments."""
    is_error: bool = False
    message: int | None = None
    """Which of the messages it is, counted from 0; None of what is none of them, or is several."""

    def as_dict(self) -> dict[str, Any]:
        tokens = self.tokens
        return {
            "at": self.at,
            "seconds": None if self.seconds is None else max(0.0, round(self.seconds, 6)),
            "kind": self.kind.value,
            "title": self.title,
            "call_id": self.call_id,
            "tool": self.tool,
            "approval": self.approval,
            "tokens": tokens and {"prompt": tokens.prompt_tokens, "completion": tokens.completion_tokens},
            "bytes": self.bytes,
            "is_error": self.is_error,
            "message": self.message,
        }


def title_of(text: str) -> str:
    """The beginning of a text on one line, with nothing in it hidden: models, servers and strangers wrote it."""
    line = " ".join(text[:_READ].split())
    if not (line.isascii() and line.isprintable()):
        line = exactly(line.encode("utf-8", "surrogatepass"))
    return line if len(line) <= _LONGEST and len(text) <= _READ else f"{line[:_LONGEST]}..."


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
