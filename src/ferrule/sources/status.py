"""Standing: how it stands with a source, by its own word, as values. Asks nobody and knows no source.

A source that is several, such as the servers of an mcp.json, has a standing for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ferrule.core.tool import ToolDefinition


class State(StrEnum):
    """Whether its tools can be reached."""

    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    """It could not be reached, or it went away; it is tried again."""
    CLOSED = "closed"


class Trust(StrEnum):
    """Whether what it says of its tools is believed, above all that one changes nothing."""

    OWN = "own"
    """The definitions are this program's."""
    TRUSTED = "trusted"
    """They come from elsewhere, and somebody vouches for it."""
    UNTRUSTED = "untrusted"
    """They come from elsewhere: every one of its tools needs leave."""


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as it was described at some time. `more` is whatever else enters the fingerprint."""

    description: str
    parameters: Mapping[str, Any]
    fingerprint: str
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(tool: ToolDefinition) -> Described:
        """A definition need not have been admitted: what is not JSON can be shown to nobody, and has no hash."""
        try:
            return Described(tool.description, tool.parameters, tool.fingerprint)
        except (TypeError, ValueError, RecursionError):
            return Described(tool.description, {}, "")


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A tool that is there and not offered. `before` is what was agreed to; None where that is not known."""

    tool: str
    why: str
    now: Described
    before: Described | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """`tools` are those that it offers; None is all that it lists. `why` says why it is not ready."""

    name: str
    kind: str
    trust: Trust = Trust.OWN
    state: State = State.READY
    why: str = ""
    tools: tuple[str, ...] | None = None
    quarantined: tuple[Quarantined, ...] = ()
