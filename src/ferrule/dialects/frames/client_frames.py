"""The frames that a client sends over a WebSocket. Any frame may have a `ref`, which the answer to it repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ferrule.core.media import Media


@dataclass(frozen=True, slots=True)
class AskFrame:
    """Starts a turn. `body` is a request body of `api`: "openai" (chat completions) or "anthropic" (messages).

    With `spelling` "specification", the frames about calls have the fields of the specification (see `codec`).
    """

    body: dict[str, Any]
    api: str = "openai"
    ref: str = ""
    spelling: str = "ferrule"


@dataclass(frozen=True, slots=True)
class CallerResultFrame:
    """The result of a tool that the caller runs. The model continues when every call of the round has its result.

    The specification's has no `turn`: it is for the turn of the connection that waits for the call.
    """

    turn: str
    id: str
    content: Any = None
    is_error: bool = False
    ref: str = ""
    media: tuple[Media, ...] | None = None
    """Its images, recordings and files."""


@dataclass(frozen=True, slots=True)
class ConfirmFrame:
    """Approves or denies a waiting call. `arguments` replace the model's; they are validated."""

    approval: str
    approve: bool
    why: str = ""
    arguments: dict[str, Any] | None = None
    ref: str = ""


@dataclass(frozen=True, slots=True)
class CancelFrame:
    """Cancels a turn."""

    turn: str
    ref: str = ""


@dataclass(frozen=True, slots=True)
class ResumeFrame:
    """Continues a turn on this connection, with the frames after number `after`."""

    turn: str
    after: int = 0
    ref: str = ""


ClientFrame: TypeAlias = AskFrame | CallerResultFrame | ConfirmFrame | CancelFrame | ResumeFrame
CLIENT_FRAMES: dict[str, type[ClientFrame]] = {
    "ask": AskFrame,
    "tool_result": CallerResultFrame,
    "confirm": ConfirmFrame,
    "cancel": CancelFrame,
    "resume": ResumeFrame,
}
