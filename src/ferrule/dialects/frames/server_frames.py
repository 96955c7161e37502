"""The frames that the gateway sends over a WebSocket. Each belongs to a turn and is numbered in it; see `codec`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ferrule.core.call import Receipt
from ferrule.core.event import Usage
from ferrule.core.media import Media


@dataclass(frozen=True, slots=True)
class StartedFrame:
    """A turn has started. `runs` says who runs its calls: "caller", "gateway" or "none". `ref` is that of the ask."""

    runs: str
    model: str
    conversation: str = ""
    """The id of the conversation in the ledger, if the gateway runs the calls."""
    ref: str = ""
    ignored: tuple[str, ...] | None = None
    """The paths of what the body asked for and nobody carries out."""


@dataclass(frozen=True, slots=True)
class TokenFrame:
    """More of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningFrame:
    """More of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDeltaFrame:
    """More of a call's arguments. The joined pieces are never a complete object before the `tool_call` arrives."""

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class CallFrame:
    """A complete call. `runs` is "caller" if the client must send a `tool_result`, "gateway" if the gateway runs it."""

    id: str
    name: str
    arguments: str
    runs: str
    receipt: Receipt | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ToolStartedFrame:
    """A tool of the gateway is running with these arguments. An approver may have changed them."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolProgressFrame:
    """The progress of a tool; `total` is None if it is unknown."""

    id: str
    done: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class ToolResultFrame:
    """The result of a tool of the gateway, as the model reads it."""

    id: str
    name: str
    content: Any = None
    is_error: bool = False
    media: tuple[Media, ...] | None = None
    """Its images, recordings and files."""


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """The definition of a tool. A changed definition has another fingerprint, and earlier approvals do not cover it."""

    name: str
    fingerprint: str
    description: str = ""
    side_effects: bool = False
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ConfirmationFrame:
    """A call waits for approval. `arguments` are for people: the bytes that will run, hidden characters escaped."""

    approval: str
    id: str
    tool: ToolInfo
    arguments: str
    arguments_sha256: str
    arguments_bytes: int
    principal: str
    conversation: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class DiagnosticFrame:
    """Something unexpected in the model's output. `id` is the call that it is about; `text` appears nowhere else."""

    code: str
    message: str
    text: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class RuleFrame:
    """The prompt and the grammar of a round, sent before it starts, if the ask sets `wire` and there is a rule.

    With `triggers` the grammar applies from the first of them on.
    """

    format: str
    target: str
    grammar: str
    prompt: str
    triggers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WireFrame:
    """More of the raw model output. `forced`: the rule allowed only this text, so it was not generated."""

    text: str
    forced: bool = False


@dataclass(frozen=True, slots=True)
class KeepAliveFrame:
    """Nothing has happened for a while; the connection works."""


@dataclass(frozen=True, slots=True)
class ErrorFrame:
    """With a turn: it failed and is over. Without one: the client's frame with this `ref` was rejected."""

    code: str
    message: str
    hint: str = ""
    retryable: bool = False
    ref: str = ""


@dataclass(frozen=True, slots=True)
class DoneFrame:
    """The turn is over. `limit` names the limit of the loop that ended it, if one did."""

    finish_reason: str
    usage: Usage | None = None
    limit: str = ""


ServerFrame: TypeAlias = (
    StartedFrame
    | TokenFrame
    | ReasoningFrame
    | CallDeltaFrame
    | CallFrame
    | ToolStartedFrame
    | ToolProgressFrame
    | ToolResultFrame
    | ConfirmationFrame
    | DiagnosticFrame
    | RuleFrame
    | WireFrame
    | KeepAliveFrame
    | ErrorFrame
    | DoneFrame
)
SERVER_FRAMES: dict[str, type[ServerFrame]] = {
    "started": StartedFrame,
    "token": TokenFrame,
    "reasoning": ReasoningFrame,
    "tool_call_delta": CallDeltaFrame,
    "tool_call": CallFrame,
    "tool_started": ToolStartedFrame,
    "tool_progress": ToolProgressFrame,
    "tool_result": ToolResultFrame,
    "confirmation_required": ConfirmationFrame,
    "diagnostic": DiagnosticFrame,
    "rule": RuleFrame,
    "wire": WireFrame,
    "keep_alive": KeepAliveFrame,
    "error": ErrorFrame,
    "done": DoneFrame,
}
