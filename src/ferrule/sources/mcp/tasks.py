"""Tasks of MCP servers: calls that a server works at after it has answered. Plain JSON in, values out; no SDK.

Both generations of the protocol have them. In the one of 2026-07-28 they are the extension `TASKS`: the server decides,
the result comes with the state, and questions are answered with `tasks/update`. In the one of 2025-11-25 the client
asks for a task, and `tasks/result` waits for the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import dumps, loads

TASKS = "io.modelcontextprotocol/tasks"
WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED = "working", "input_required", "completed", "failed", "cancelled"
_STATUSES = frozenset({WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED})
_DEFAULT_POLL, _SHORTEST_POLL, _LONGEST_POLL = 1.0, 0.05, 300.0
_MAX_ID, _MAX_MESSAGE = 1_000, 2_000


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as its server described it last."""

    id: str
    status: str
    message: str = ""
    updated_at: str = ""
    poll_seconds: float = _DEFAULT_POLL
    requests: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the server wants to know before it continues, by keys that it does not use twice."""
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in (COMPLETED, FAILED, CANCELLED)

    @property
    def progress(self) -> tuple[str, str, str]:
        """What changes when the task makes progress."""
        return (self.status, self.message, self.updated_at)


@dataclass(frozen=True, slots=True)
class TaskHandle:
    """What is recorded of a task: its server, its tool and its id. `server` is the hash `Server.identity`."""

    server: str
    tool: str
    id: str

    @property
    def text(self) -> str:
        return dumps({"server": self.server, "tool": self.tool, "task": self.id})


def read_handle(text: str) -> TaskHandle | None:
    """Read a handle that was recorded; None if this is none."""
    try:
        value: Any = loads(text)
    except (ValueError, RecursionError):
        return None
    match value:
        case {"server": str(server), "tool": str(tool), "task": str(id)}:
            return TaskHandle(server, tool, id)
        case _:
            return None


def read_task(value: object) -> TaskState | None:
    """Read what a server says about a task, in either generation; None if it breaks the protocol."""
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    id, status = fields.get("taskId"), fields.get("status")
    if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID or status not in _STATUSES:
        return None
    poll = fields.get("pollIntervalMs", fields.get("pollInterval"))
    is_number = isinstance(poll, int | float) and not isinstance(poll, bool)
    seconds = float(cast("float", poll)) / 1_000 if is_number else _DEFAULT_POLL
    return TaskState(
        id,
        str(status),
        str(fields.get("statusMessage") or "")[:_MAX_MESSAGE],
        str(fields.get("lastUpdatedAt") or ""),
        min(max(seconds, _SHORTEST_POLL), _LONGEST_POLL),
        _mapping(fields.get("inputRequests")) or {},
        _mapping(fields.get("result")),
        _mapping(fields.get("error")),
    )


def _mapping(value: object) -> Mapping[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
