"""Outcome: what became of running a tool. Three things are kept apart, because they allow different things after.

Not delivered: it surely did not run, so it may be tried again. Answered: it ran and said something. Unknown: it may
have run, and no machine may try it again where it changes the world.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Answered:
    """The tool's own answer. `code` names the kind of an error, for programs: "bad_request", "timeout" and the like."""

    content: Any
    is_error: bool = False
    code: str = ""


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """The call did not reach the tool: nobody serves it, or whoever does refused it unread."""

    reason: str
    code: str = "not_delivered"


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call was sent and no answer came."""

    reason: str
    code: str = "unknown"


Outcome: TypeAlias = Answered | NotDelivered | Unknown
