"""TimelineEntry: one line of a conversation's timeline, and how its title is made. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ferrule.core.event import Usage
from ferrule.core.visible_text import visible_text

_MAX_TITLE = 120
_MAX_INPUT = 8 * _MAX_TITLE


class EntryKind(StrEnum):
    """The kind of an entry. Entries with the same time are sorted in this order.

    HISTORY: earlier messages that the client sent along. LIMIT: the loop's own message when a limit was reached. RETRY:
    a tool that runs again after an error. UNKNOWN: a call that may or may not have run. REFUSED: a call that was not
    run. TAKEN_OVER: a process died, and another one continued.
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


_RANKS = {kind: rank for rank, kind in enumerate(EntryKind)}


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One entry. `at` is when it began, in Unix seconds; `seconds` how long it took, None if unknown or running."""

    at: float
    kind: EntryKind
    title: str
    seconds: float | None = None
    call_id: str = ""
    tool: str = ""
    approval: str = ""
    tokens: Usage | None = None
    bytes: int | None = None
    """The size of the message, the reply or the result; for an approval, of the arguments."""
    is_error: bool = False
    message: int | None = None
    """The index of its message, from 0; None for an entry that is no message, or several."""

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
    """Return the beginning of a text on one line, with invisible characters escaped, because the text is untrusted."""
    line = " ".join(text[:_MAX_INPUT].split())
    if not (line.isascii() and line.isprintable()):
        line = visible_text(line.encode("utf-8", "surrogatepass"))
    return line if len(line) <= _MAX_TITLE and len(text) <= _MAX_INPUT else f"{line[:_MAX_TITLE]}..."


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
