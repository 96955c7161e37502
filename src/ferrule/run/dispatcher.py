"""Dispatcher: runs calls. Checked, authorised, confirmed where they change the world, timed, told of in one shape.

Whatever goes wrong comes back as a result that the model can act on; nothing of a stack or a secret is in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import CallContext
from ferrule.core.json_text import dumps
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FerruleError, SchemaError
from ferrule.run.policy import Policy
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for
from ferrule.sources.source import Source, within
from ferrule.sources.tool_output import Remainders, capped, shaped

_DELIVERIES = 3
_PAUSE = 0.05
UNKNOWN_WORDS = (
    "unknown: it was sent and no answer came, so it may or may not have happened. Do not repeat it; say that its "
    "outcome is not known, or find out by reading."
)


@dataclass(slots=True)
class Dispatcher:
    """Over a source of tools, which is the specification's bus. `tools` are the names to offer; None is all of them."""

    bus: Source
    tools: Sequence[str] | None = None
    max_iterations: int = 6
    per_tool_timeout_seconds: float = 30.0
    max_concurrent: int = 4
    confirms_side_effects: bool = True
    notices: list[str] = field(default_factory=list[str])
    """What a person should know: a tool that is not offered, and why."""
    remainders: Remainders = field(default_factory=Remainders)
    _definitions: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])

    @property
    def policy(self) -> Policy:
        return Policy(
            rounds=self.max_iterations,
            width=self.max_concurrent,
            tool_seconds=self.per_tool_timeout_seconds,
            confirms_side_effects=self.confirms_side_effects,
        )

    async def refresh(self) -> tuple[ToolDefinition, ...]:
        """Reads the list of tools. One whose schema cannot be used is left out by itself, with a notice."""
        found: dict[str, ToolDefinition] = {}
        self.notices = []
        for tool in await self.bus.tools():
            if self.tools is not None and tool.name not in self.tools:
                continue
            try:
                found[tool.name] = replace(tool, parameters=admit(tool.parameters))
            except SchemaError as refusal:
                self.notices.append(f"{tool.name} is not offered: {refusal.message}")
        missing = [name for name in self.tools or () if name not in found]
        self.notices += [f"{name} is not there" for name in missing]
        self._definitions = found
        return tuple(found.values())

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools as of the last `refresh`."""
        return tuple(self._definitions.values())

    @property
    def native_definitions(self) -> list[dict[str, Any]]:
        """The tools in the spelling of OpenAI's API."""
        return [tool.as_function() for tool in self._definitions.values()]

    def requires_confirmation(self, call: ToolCall) -> bool:
        tool = self._definitions.get(call.name)
        return self.confirms_side_effects and tool is not None and tool.side_effects

    async def dispatch(self, call: ToolCall, context: CallContext | None = None) -> ToolResult:
        """Runs a call that needs no leave; one that does comes back undone, saying so."""
        if self.requires_confirmation(call):
            told = f"requires_confirmation: {call.name} changes the world and needs leave"
            return ToolResult(call.id, call.name, told, is_error=True)
        return self.result_of(call, await self.run(call, context))

    async def dispatch_confirmed(self, call: ToolCall, context: CallContext | None = None) -> ToolResult:
        """Runs a call that somebody gave leave for."""
        return self.result_of(call, await self.run(call, context))

    def fault_of(self, call: ToolCall, context: CallContext) -> Outcome | None:
        """Why a call may not run at all; None where it may. The model reads it and can correct itself."""
        tool = self._definitions.get(call.name)
        if tool is None:
            offered = ", ".join(self._definitions) or "nothing"
            return Answered(f"unknown tool {call.name!r}; offered: {offered}", is_error=True, code="bad_request")
        faults = checker_for(tool.parameters).faults_of_text(call.function.arguments)
        if faults or not call.complete:
            told = "; ".join(map(str, faults)) or "the call was cut off"
            return Answered(f"invalid_arguments: {told}", is_error=True, code="bad_request")
        try:
            context.principal.require(tool.bound_capability or tool.name)
        except FerruleError as refusal:
            return Answered(f"{refusal.code}: {refusal.message}", is_error=True, code=refusal.code)
        return None

    async def run(self, call: ToolCall, context: CallContext | None = None) -> Outcome:
        """What becomes of a call. It is tried again only where it surely did not run."""
        given = context or CallContext(call_id=call.id)
        fault = self.fault_of(call, given)
        if fault is not None:
            return fault
        outcome: Outcome = NotDelivered("it was not tried")
        for attempt in range(_DELIVERIES):
            if attempt:
                await asyncio.sleep(_PAUSE * 2**attempt)
            outcome = await self._once(call, given)
            if not isinstance(outcome, NotDelivered):
                break
        return self._shaped(call, outcome)

    def definition(self, name: str) -> ToolDefinition | None:
        return self._definitions.get(name)

    def _shaped(self, call: ToolCall, outcome: Outcome) -> Outcome:
        """An answer as JSON and not longer than a model should read: what is written down is what is read."""
        if not isinstance(outcome, Answered):
            return outcome
        return replace(outcome, content=capped(shaped(outcome.content), f"result-{call.id}", self.remainders))

    async def _once(self, call: ToolCall, context: CallContext) -> Outcome:
        now = time.time()
        latest = now + self.per_tool_timeout_seconds
        deadline = latest if context.deadline is None else min(latest, context.deadline)
        # The tool is told too: one that runs elsewhere must not go on when nobody waits for it any more.
        work = self.bus.call(call.name, call.arguments, replace(context, deadline=deadline))
        changes = self._definitions[call.name].side_effects
        return await within(max(0.0, deadline - now), work, changes_the_world=changes)

    def result_of(self, call: ToolCall, outcome: Outcome, hint: str = "") -> ToolResult:
        """What the model reads."""
        match outcome:
            case Answered(content, is_error):
                shown = content
            case NotDelivered(reason):
                shown, is_error = f"not_delivered: {reason}", True
            case Unknown(reason):
                shown, is_error = f"{UNKNOWN_WORDS} ({reason})", True
        if hint:
            shown = f"{shown if isinstance(shown, str) else dumps(shown)}\n{hint}"
        return ToolResult(call.id, call.name, shown, is_error)
