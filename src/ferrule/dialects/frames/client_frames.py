"""What a client says over a WebSocket. Any frame may have a `ref` of the client's own, which its answer repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as the API has it: `api` is "openai" (chat completions) or "anthropic" (messages)."""

    body: dict[str, Any]
    api: str = "openai"
    ref: str = ""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What one of the caller's own tools gave. When every call of a turn has its own, the model goes on."""

    turn: str
    id: str
    content: Any = None
    is_error: bool = False
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Leave for a call that waits, or none. `arguments` are to run instead of the model's, and are checked."""

    approval: str
    approve: bool
    why: str = ""
    arguments: dict[str, Any] | None = None
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The turn is to end here."""

    turn: str
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """The turn's frames from the one after `after` on, on this connection from now on."""

    turn: str
    after: int = 0
    ref: str = ""


Incoming: TypeAlias = Ask | ToolAnswer | Confirm | Cancel | Resume
INCOMING: dict[str, type[Incoming]] = {
    "ask": Ask,
    "tool_result": ToolAnswer,
    "confirm": Confirm,
    "cancel": Cancel,
    "resume": Resume,
}
