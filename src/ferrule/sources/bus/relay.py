"""`llm.tools.call@1.0`: a tool that calls other tools, with validated arguments, the caller's permissions and an audit
record, one hop deeper.

A person who approves a relay call does not see what the inner call does. So by default a relay calls only tools without
side effects. A relay that may call every tool declares side effects itself, and each call then needs approval.
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
from ferrule.rules.call_check import argument_faults
from ferrule.schema.admission_cache import admit_tool
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.subject import Capability
from ferrule.sources.source import Source

CAPABILITY, VERSION = "llm.tools.call", "1.0"
AuditCallback = Callable[[Mapping[str, Any]], None]


def _discard(line: Mapping[str, Any]) -> None:
    """Do nothing."""


class Relay(Source):
    """A tool that calls capabilities of a bus. `audit` receives one record for every call, whatever its outcome."""

    def __init__(self, bus: Bus, *, audit: AuditCallback = _discard, allow_side_effects: bool = False) -> None:
        self.id = "relay"
        self._bus = bus
        self._audit = audit
        self._allow_side_effects = allow_side_effects
        self._definition = (
            ToolDefinition.build("call_tool")
            .description("Calls a capability of the bus by its name, with the caller's own rights.")
            .parameter("capability", {"type": "string", "maxLength": 300}, "such as rag.query@1.0", required=True)
            .parameter("input", {"type": "object"}, "the arguments that it takes", required=True)
            .bound_to(CAPABILITY, VERSION)
            .side_effects(allow_side_effects)
            .done()
        )

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return (self._definition,)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        started = time.time()
        capability, inner_arguments = str(arguments.get("capability", "")), arguments.get("input", {})
        try:
            outcome = await self._call_capability(capability, inner_arguments, context)
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
                "capability": capability,
                "arguments_sha256": digest(inner_arguments),
                **_outcome_fields(outcome),
            }
        )
        return outcome

    async def open(self) -> None:
        await self._bus.open()

    async def close(self) -> None:
        await self._bus.close()

    async def _call_capability(self, name: str, arguments: Any, context: CallContext) -> Outcome:
        nested = context.nested()
        capability = Capability.read(name)
        # Before the lookup, so that a caller cannot find out which capabilities exist without the scope to use them.
        nested.principal.require(capability.name)
        entry = await self._bus.definition_of(capability)
        if entry is None:
            raise DefinitionError(f"no worker serves {capability}")
        served, tool = entry
        if tool.side_effects and not self._allow_side_effects:
            raise DefinitionError(
                f"{capability} has side effects, and this relay does not allow them", code="requires_confirmation"
            )
        faults = argument_faults(admit_tool(tool), arguments)
        if faults:
            details = "; ".join(map(str, faults))
            return Answered(f"invalid_arguments: {details}", is_error=True, code="bad_request")
        return await self._bus.call_capability(served, arguments, nested)


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Answered(_, is_error, code):
            return {"outcome": "error" if is_error else "answered", "code": code}
        case NotDelivered(_, code):
            return {"outcome": "not_delivered", "code": code}
        case Unknown(_, code):
            return {"outcome": "unknown", "code": code}
