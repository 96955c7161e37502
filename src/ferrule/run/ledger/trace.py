"""TracedRequest, TraceSummary, Trace and TraceQuery: what is recorded of requests, for people to read. Values only.

A trace is one conversation as its client sees it, however many requests it took. Nothing depends on it: requests are
recorded after they were answered, and a record may be missing. What must not be lost is in the other tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TraceStatus(StrEnum):
    """How a request ended; a trace has the status of its last request."""

    RUNNING = "running"
    WAITING = "waiting"  # For an approval.
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"  # Cut off by a limit.
    FAILED = "failed"
    LEFT = "left"  # The client disconnected before the end.
    INTERRUPTED = "interrupted"  # The process stopped before the end.


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestError:
    """The error that a request was answered with. `detail` is for operators; the client was only sent `message`."""

    code: str
    status: int
    message: str
    detail: str = ""


class ChangedBy(StrEnum):
    """Who changed the beginning of a prompt since the request before."""

    NOBODY = ""
    CLIENT = "client"
    GATEWAY = "gateway"
    TEMPLATE = "template"  # The model's chat template, which writes the same messages in another way.


@dataclass(frozen=True, slots=True)
class PromptPrefix:
    """How the prompt of a request continues that of the request before it in the same run.

    `what` says what changed first. The sizes are in bytes: of the prompt before, and of its beginning that is the same,
    0 if that is not known. A change is located to 256 bytes.
    """

    by: ChangedBy
    what: str
    kept_bytes: int
    previous_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRequest:
    """One request, from which client and with which result. `seconds` is None while it runs."""

    id: str
    tenant: str
    principal: str
    at: float
    api: str
    request_id: str = ""
    seconds: float | None = None
    status: TraceStatus = TraceStatus.RUNNING
    model: str = ""
    finish: str = ""
    error: RequestError | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """How many of the prompt's tokens the engine had in its cache; it read the others."""
    completion_tokens: int = 0
    cost: float | None = None
    """In the currency of the configured prices; None without them."""
    tools: tuple[str, ...] = ()
    """The tools that were called, each once."""
    conversation: str = ""
    """The conversation in the ledger, if it has one."""
    title: str = ""
    messages_text: str = "[]"
    """The messages that it added, as JSON; as many of them as are kept."""
    history_key: str = ""
    """The key of the history up to and including the reply. See `run.history_key`."""
    prompt_prefix: PromptPrefix | None = None
    """What changed since the request before; None if there is none, or none that is known."""
    earlier_keys: tuple[str, ...] = ()
    """The keys of the beginnings of its history, longest first. Only used to find its trace, and not stored."""

    @property
    def read_tokens(self) -> int:
        """How many tokens of the prompt the engine had to read."""
        return max(0, self.prompt_tokens - self.cached_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """One row of a list of traces."""

    id: str
    tenant: str
    principal: str
    began_at: float
    changed_at: float
    status: TraceStatus | None
    """None for a conversation that a program recorded in the ledger without a request."""
    model: str = ""
    error: str = ""
    title: str = ""
    request_count: int = 0
    error_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace with its requests, oldest first."""

    summary: TraceSummary
    requests: tuple[TracedRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Which traces of a tenant to list, newest first. An empty field does not restrict; `after` is the last id before.

    A running trace that was not changed since `stale_before` counts as interrupted. `since` and `until` select the
    traces that were active in between.
    """

    principal: str = ""
    text: str = ""
    tool: str = ""
    status: TraceStatus | None = None
    since: float = 0.0
    until: float = 1e300
    after: str = ""
    limit: int = 20
    stale_before: float = 0.0
