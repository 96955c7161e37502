"""ConfirmingExecutor: runs the calls of a request that was stored, with the approvals and the limit that it named."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.run.executor import ToolExecutor
from ferrule.run.policy import Policy
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.gateway import Gateway


@dataclass(slots=True)
class ConfirmingExecutor(ToolExecutor):
    """An executor that also requires approval for the tools that the client names, and limits the number of calls."""

    approval_required: frozenset[str] = frozenset()
    max_calls: int | None = None

    @property
    def policy(self) -> Policy:
        # Not super(): dataclass(slots=True) creates a second class, and the short form would refer to the first.
        return replace(ToolExecutor.policy.__get__(self), calls=self.max_calls)

    def requires_confirmation(self, call: ToolCall) -> bool:
        return call.name in self.approval_required or ToolExecutor.requires_confirmation(self, call)


def executor_of(gateway: Gateway, resume_record: ResumeRecord, principal: Principal) -> ConfirmingExecutor:
    executor = gateway.tool_catalog.executor(principal, resume_record.tool_names)
    return ConfirmingExecutor(
        executor.bus,
        executor.tools,
        max_iterations=executor.max_iterations,
        per_tool_timeout_seconds=executor.per_tool_timeout_seconds,
        max_concurrent=executor.max_concurrent,
        confirms_side_effects=executor.confirms_side_effects,
        approval_policy=executor.approval_policy,
        approval_required=resume_record.approval_required,
        max_calls=resume_record.max_tool_calls,
    )
