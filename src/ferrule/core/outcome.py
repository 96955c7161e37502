"""Outcome: the result of running a tool. There are three kinds, because they allow different next steps.

NotDelivered: the tool certainly did not run, so the call may be retried. Answered: it ran and returned something.
Unknown: it may have run, so a call with side effects is never retried automatically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ferrule.core.media import Media

TOOL_BUSY = "tool_busy"
"""The code of a call that was not delivered because too many calls of its tool or its tenant run already."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The tool's own answer. `code` names the kind of an error, for programs: "bad_request", "timeout" and so on."""

    content: Any
    is_error: bool = False
    code: str = ""
    media: tuple[Media, ...] = ()
    """The images, recordings and files of the answer."""


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """The call did not reach the tool: nobody serves it, or the server refused it unread."""

    reason: str
    code: str = "not_delivered"


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call was sent, and there was no answer."""

    reason: str
    code: str = "unknown"


Outcome: TypeAlias = Answered | NotDelivered | Unknown
