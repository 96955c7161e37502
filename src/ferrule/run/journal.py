"""Journal: where a loop writes down what it does, before and after. Without a ledger nothing is kept.

The loop asks its journal for everything that must not happen twice; what that takes is the journal's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ferrule.core.call import ToolCall
from ferrule.core.outcome import Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.run.reply_record import Took
from ferrule.run.tool_usage import Selection

Effect = Callable[[], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's word on a call. `arguments` replace the model's, and are checked again."""

    is_allowed: bool
    why: str = ""
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A call as it is written down: `place` is its own in the conversation, whatever id the model gave it."""

    place: str
    call: ToolCall
    tool: ToolDefinition
    needs_leave: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave that was asked for, and the decision on it if there is one already."""

    approval: str = ""
    decision: Decision | None = None


class Journal(Protocol):
    def key(self, place: str, call: ToolCall) -> str:
        """What the tool is told to know this call again by."""
        ...

    async def keep(self, state: dict[str, Any], /) -> None:
        """The loop as it is now, as JSON."""
        ...

    async def replied(self, place: str, model: str, selection: Selection | None, took: Took, /) -> None:
        """What a model chose in one reply, of what it was offered, and what the reply took."""
        ...

    async def known(self, place: str, /) -> Outcome | None:
        """What became of a call that was begun before, whatever has become of its tool since."""
        ...

    async def run(self, entry: Entry, effect: Effect, /) -> Outcome:
        """What became of a call: from its effect, which begins at most once, or from what is written."""
        ...

    async def refuse(self, place: str, why: str, /) -> None:
        """A call will not run."""
        ...

    async def ask(self, entry: Entry, /) -> Leave:
        """Ask for leave, or find what was asked for before."""
        ...

    async def decided(self, approval: str, decision: Decision, /) -> None:
        """Somebody here has decided."""
        ...

    async def awaited(self, approval: str, /) -> Decision | None:
        """What somebody elsewhere decides, if he does soon."""
        ...


class NoJournal:
    """Nothing is written down, and nothing survives the process."""

    def key(self, place: str, call: ToolCall) -> str:
        return call.id

    async def keep(self, state: dict[str, Any], /) -> None:
        return

    async def replied(self, place: str, model: str, selection: Selection | None, took: Took, /) -> None:
        return

    async def known(self, place: str, /) -> Outcome | None:
        return None

    async def run(self, entry: Entry, effect: Effect, /) -> Outcome:
        return await effect()

    async def refuse(self, place: str, why: str, /) -> None:
        return

    async def ask(self, entry: Entry, /) -> Leave:
        return Leave()

    async def decided(self, approval: str, decision: Decision, /) -> None:
        return

    async def awaited(self, approval: str, /) -> Decision | None:
        return None
