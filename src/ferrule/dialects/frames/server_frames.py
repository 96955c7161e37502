"""What the gateway says over a WebSocket. Each belongs to a turn, and is numbered there; see `codec`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ferrule.core.event import Usage
from ferrule.core.receipt import Receipt


@dataclass(frozen=True, slots=True)
class Started:
    """A turn has begun. `runs` is who runs its calls: "caller", "gateway" or "none". `ref` is the ask's."""

    runs: str
    model: str
    conversation: str = ""
    """Under which id the ledger has it, where the gateway runs the calls."""
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """More of what a reader sees."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model writes for itself."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of a call's arguments. Joined they are never a whole object before the `tool_call` has come."""

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A whole call. `runs` is "caller" where a `tool_result` is waited for, "gateway" where it runs here."""

    id: str
    name: str
    arguments: str
    runs: str
    receipt: Receipt | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """One of the gateway's tools is running, with these arguments: a person may have changed them."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """How far a tool has come; no `total` where nobody knows."""

    id: str
    done: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class ToolGave:
    """What one of the gateway's tools gave: what the model reads."""

    id: str
    name: str
    content: Any = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """The tool as it is defined. Another definition has another fingerprint, and no leave that was given before."""

    name: str
    fingerprint: str
    description: str = ""
    side_effects: bool = False
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ConfirmationRequired:
    """A call waits for leave. `arguments` are for people: the bytes that will run, with what is hidden spelled out."""

    approval: str
    id: str
    tool: ToolFacts
    arguments: str
    arguments_sha256: str
    arguments_bytes: int
    principal: str
    conversation: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class Odd:
    """Something unexpected in the model's output. `id` is the call's that it is about; `text` landed nowhere else."""

    code: str
    message: str
    text: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a round is written from and held to, before it begins. Only where the ask says `wire`, and there is a rule.

    With `triggers` the grammar holds from the first of them on.
    """

    format: str
    target: str
    grammar: str
    prompt: str
    triggers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wire:
    """More of what the model wrote, before it is read. `forced`: the rule left no choice, so it was not generated."""

    text: str
    forced: bool = False


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Nothing happened for a while, and the connection is well."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Of a turn: it is over. Of no turn: a frame of the client was not taken, that with this `ref`."""

    code: str
    message: str
    hint: str = ""
    retryable: bool = False
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The turn is over. `limit` says which limit of the loop ended it, if one did."""

    finish_reason: str
    usage: Usage | None = None
    limit: str = ""


Outgoing: TypeAlias = (
    Started
    | Token
    | Reasoning
    | CallDelta
    | Call
    | ToolStarted
    | ToolProgress
    | ToolGave
    | ConfirmationRequired
    | Odd
    | Rule
    | Wire
    | KeepAlive
    | Failed
    | Done
)
OUTGOING: dict[str, type[Outgoing]] = {
    "started": Started,
    "token": Token,
    "reasoning": Reasoning,
    "tool_call_delta": CallDelta,
    "tool_call": Call,
    "tool_started": ToolStarted,
    "tool_progress": ToolProgress,
    "tool_result": ToolGave,
    "confirmation_required": ConfirmationRequired,
    "diagnostic": Odd,
    "rule": Rule,
    "wire": Wire,
    "keep_alive": KeepAlive,
    "error": Failed,
    "done": Done,
}
