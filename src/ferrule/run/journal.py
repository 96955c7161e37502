"""Journal: where a loop records what it does, before and after. Without a ledger nothing is recorded.

The loop asks its journal about everything that must not happen twice; how that is ensured is the journal's concern.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferrule.core.call import ToolCall
from ferrule.core.context import TaskRecord
from ferrule.core.message import ChatMessage, messages_as_json
from ferrule.core.outcome import Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.reply_record import ReplyCost
from ferrule.run.tool_usage import ToolUsage

Effect = Callable[[TaskRecord], Awaitable[Outcome]]
"""Runs a call, or resumes the task that is recorded of it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision on a call. `arguments` replace the model's, and are validated again.

    Example:
        async def ask_me(call: ToolCall) -> Decision:
            answer = input(f"Run {call.name} with {call.function.arguments}? [y/n] ")
            return Decision(answer == "y", why="the user said no")

        conversation = ToolConversation(engine, [send_mail], decide=ask_me)
    """

    is_allowed: bool
    why: str = ""
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A call as it is recorded. `place` identifies it in the conversation; the model's ids may repeat."""

    place: str
    call: ToolCall
    tool: ToolDefinition
    needs_approval: bool
    terms: ApprovalTerms = field(default_factory=ApprovalTerms)
    """Who must approve it, if it needs approval."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request for approval, and the decision on it if there already is one."""

    approval_id: str = ""
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class LoopState:
    """A loop at one moment: JSON, and the messages that it has added to the conversation."""

    data: Mapping[str, Any]
    messages: tuple[ChatMessage, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return both as JSON."""
        return {**self.data, "added": messages_as_json(self.messages)}


class Journal(Protocol):
    """What a loop needs in order to record its steps."""

    def idempotency_key(self, place: str, call: ToolCall) -> str:
        """Return the key by which the tool can recognize this call: the same for every attempt."""
        ...

    async def save_state(self, state: LoopState, /) -> None:
        """Save the loop as it is now."""
        ...

    async def record_reply(self, place: str, model: str, usage: ToolUsage | None, cost: ReplyCost, /) -> None:
        """Record which of the offered tools a reply calls, and what the reply cost."""
        ...

    async def find_outcome(self, place: str, /) -> Outcome | None:
        """Return the outcome of a call that was started before, even if its tool no longer exists."""
        ...

    async def run(self, entry: CallEntry, effect: Effect, /) -> Outcome:
        """Return the outcome of a call: from its effect, which starts at most once, or from the record."""
        ...

    async def refuse(self, place: str, why: str, /) -> Outcome | None:
        """Record that a call will not run. Returns the outcome of one that has begun a task, which is unknown then."""
        ...

    async def request_approval(self, entry: CallEntry, /) -> ApprovalRequest:
        """Request approval for a call, or return the request that was made before."""
        ...

    async def flush(self) -> None:
        """Make sure that everything so far is recorded: a requested approval can then be decided elsewhere."""
        ...

    async def record_decision(self, approval: str, decision: Decision, /) -> None:
        """Record a decision that was made in this process."""
        ...

    async def wait_for_decision(self, approval: str, /) -> Decision | None:
        """Wait a while for a decision that is made elsewhere; None if there is none by then."""
        ...


class NoJournal:
    """Records nothing; nothing survives the process."""

    def idempotency_key(self, place: str, call: ToolCall) -> str:
        return call.id

    async def save_state(self, state: LoopState, /) -> None:
        return

    async def record_reply(self, place: str, model: str, usage: ToolUsage | None, cost: ReplyCost, /) -> None:
        return

    async def find_outcome(self, place: str, /) -> Outcome | None:
        return None

    async def run(self, entry: CallEntry, effect: Effect, /) -> Outcome:
        return await effect(TaskRecord())

    async def refuse(self, place: str, why: str, /) -> Outcome | None:
        return None

    async def request_approval(self, entry: CallEntry, /) -> ApprovalRequest:
        return ApprovalRequest()

    async def flush(self) -> None:
        return

    async def record_decision(self, approval: str, decision: Decision, /) -> None:
        return

    async def wait_for_decision(self, approval: str, /) -> Decision | None:
        return None
