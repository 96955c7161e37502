"""SourceStatus: the state of a source as plain values. It does no I/O.

A source with several parts, such as the servers in an mcp.json, has one status for each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ferrule.core.tool import ToolDefinition


class SourceState(StrEnum):
    """Whether the tools can be reached."""

    CONNECTING = "connecting"
    READY = "ready"
    NEEDS_LOGIN = "needs_login"
    """It can be reached, and a person has to sign in to it first."""
    FAILED = "failed"
    """It could not be reached, or the connection was lost; it is retried."""
    CLOSED = "closed"


class Trust(StrEnum):
    """Whether a source's claims about its tools are believed, above all that a tool has no side effects."""

    OWN = "own"
    """The definitions are part of this program."""
    TRUSTED = "trusted"
    """The definitions come from elsewhere, and the operator trusts them."""
    UNTRUSTED = "untrusted"
    """The definitions come from elsewhere; every tool needs approval."""


@dataclass(frozen=True, slots=True)
class ToolSnapshot:
    """A tool's description at one point in time. `more` holds what else enters the fingerprint."""

    description: str
    parameters: Mapping[str, Any]
    fingerprint: str
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(tool: ToolDefinition) -> ToolSnapshot:
        """The snapshot of a definition. If its schema is not valid JSON, the schema and the fingerprint are empty."""
        try:
            return ToolSnapshot(tool.description, tool.parameters, tool.fingerprint)
        except (TypeError, ValueError, RecursionError):
            return ToolSnapshot(tool.description, {}, "")


@dataclass(frozen=True, slots=True)
class QuarantinedTool:
    """A tool that exists but is not offered. `before` is the pinned definition; None if it is not known."""

    tool: str
    reason: str
    now: ToolSnapshot
    before: ToolSnapshot | None = None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The status of one source. `tools` are the offered tools; None means all. `reason` says why it is not ready."""

    name: str
    kind: str
    trust: Trust = Trust.OWN
    state: SourceState = SourceState.READY
    reason: str = ""
    tools: tuple[str, ...] | None = None
    quarantined: tuple[QuarantinedTool, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolLoad:
    """How many calls of a tool take up a thread now. `hung` are those that did not return by their deadline."""

    tool: str
    running: int
    hung: int
