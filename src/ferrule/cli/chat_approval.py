"""Approval in `ferrule chat`: what becomes of calls with side effects, and how a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

from ferrule.cli import terminal
from ferrule.core.call import ToolCall
from ferrule.core.visible_text import visible
from ferrule.run.journal import Decision


class ApprovalMode(StrEnum):
    """What becomes of a call of a tool with side effects."""

    ASK = "ask"
    ALL = "all"
    NONE = "none"


MEANINGS = {
    ApprovalMode.ASK: "a tool with side effects runs after you say yes",
    ApprovalMode.ALL: "every tool runs at once, with side effects or without",
    ApprovalMode.NONE: "tools with side effects do not run; the model reads that they were denied",
}


class ChatApproval:
    """Decides about calls. `ask` asks the person; `before_question` makes the screen free for the question."""

    def __init__(self, mode: ApprovalMode, ask: Callable[[str], Awaitable[str | None]]) -> None:
        self.mode = mode
        self.always: set[str] = set()
        """The tools that the person approved for the rest of the session."""
        self.before_question: Callable[[], None] = lambda: None
        self.screen = asyncio.Lock()
        """Held while a question is open, so that nothing is printed over it."""
        self._ask = ask

    async def decide(self, call: ToolCall) -> Decision:
        async with self.screen:
            if self.mode is ApprovalMode.NONE:
                return Decision(False, "the user runs no tools with side effects in this session")
            if self.mode is ApprovalMode.ALL or call.name in self.always:
                return Decision(True)
            self.before_question()
            return await self._question(call)

    async def _question(self, call: ToolCall) -> Decision:
        name, arguments = visible(call.name), visible(call.function.arguments)
        answer = await self._ask(f"run {name}({arguments})? [y/N/a]")
        match (answer or "").strip().lower():
            case "y" | "yes":
                return Decision(True)
            case "a" | "always":
                self.always.add(call.name)
                terminal.show_hint(f"{name} runs without a question until you leave, or /approve ask.")
                return Decision(True)
            case _:
                return Decision(False, "the user refused it")
