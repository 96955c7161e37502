"""`llm.tools.call@1.0`: a tool that calls tools, checked, with the caller's own rights, one hop deeper, written down.

A relay stands between a person's leave and an effect, so by default it calls only what changes nothing. One that may
call everything says of itself that it changes the world, and then needs leave each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.json_text import digest
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, FerruleError
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.subject import Capability
from ferrule.sources.source import Source

CAPABILITY, VERSION = "llm.tools.call", "1.0"
Audit = Callable[[Mapping[str, Any]], None]


def _unheard(line: Mapping[str, Any]) -> None:
    """Nobody keeps it."""


class Relay(Source):
    """`audit` is given one line for every call, whatever becomes of it."""

    def __init__(self, bus: Bus, *, audit: Audit = _unheard, allows_effects: bool = False) -> None:
        self.id = "relay"
        self._bus = bus
        self._audit = audit
        self._allows_effects = allows_effects
        self._definition = (
            ToolDefinition.build("call_tool")
            .description("Calls a capability of the bus by its name, with the caller's own rights.")
            .parameter("capability", {"type": "string", "maxLength": 300}, "such as corpus.search@1.0", required=True)
            .parameter("input", {"type": "object"}, "the arguments that it takes", required=True)
            .bound_to(CAPABILITY, VERSION)
            .side_effects(allows_effects)
            .done()
        )

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return (self._definition,)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        started = time.time()
        wanted, given = str(arguments.get("capability", "")), arguments.get("input", {})
        try:
            outcome = await self._called(wanted, given, context)
        except FerruleError as refusal:
            outcome = Answered(f"{refusal.code}: {refusal.message}", is_error=True, code=refusal.code)
        self._audit(
            {
                "at": started,
                "seconds": round(time.time() - started, 6),
                "tenant": context.principal.tenant,
                "principal": context.principal.name,
                "conversation": context.conversation,
                "call": context.call_id,
                "hops": context.hops,
                "capability": wanted,
                "arguments_sha256": digest(given),
                **_what_became(outcome),
            }
        )
        return outcome

    async def open(self) -> None:
        await self._bus.open()

    async def close(self) -> None:
        await self._bus.close()

    async def _called(self, wanted: str, given: Any, context: CallContext) -> Outcome:
        deeper = context.deeper()
        capability = Capability.read(wanted)
        # Before anything is looked up, so that nobody learns what there is that he may not use.
        deeper.principal.require(capability.name)
        found = await self._bus.definition_of(capability)
        if found is None:
            raise DefinitionError(f"nobody serves {capability}")
        served, tool = found
        if tool.side_effects and not self._allows_effects:
            raise DefinitionError(
                f"{capability} changes the world, and this relay may not", code="requires_confirmation"
            )
        faults = checker_for(admit(tool.parameters)).faults(given)
        if faults:
            told = "; ".join(map(str, faults))
            return Answered(f"invalid_arguments: {told}", is_error=True, code="bad_request")
        return await self._bus.call_capability(served, given, deeper)


def _what_became(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Answered(_, is_error, code):
            return {"outcome": "error" if is_error else "answered", "code": code}
        case NotDelivered(_, code):
            return {"outcome": "not_delivered", "code": code}
        case Unknown(_, code):
            return {"outcome": "unknown", "code": code}
