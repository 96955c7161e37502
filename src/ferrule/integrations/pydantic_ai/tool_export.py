"""Ferrule tools as a Pydantic AI toolset. It knows no model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.tools import RunContext
from pydantic_ai.tools import ToolDefinition as TheirDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from ferrule.core.call import ToolCall
from ferrule.core.fault import Fault
from ferrule.core.json_text import loads
from ferrule.integrations.exported_tools import ExportableTools, ExportedTool, wrap_tools, wrap_tools_async
from ferrule.run.decision import DecideInput
from ferrule.run.loop import deny_all
from ferrule.schema.checker import Checker, checker_for

_RETRIES = 1
"""How often a model may correct its arguments: the framework's default."""
_Partial = bool | Literal["off", "on", "trailing-strings"]


def export_tools(
    tools: ExportableTools, decide: DecideInput = deny_all, *, id: str | None = None
) -> list[AbstractToolset[object]]:
    """Export Ferrule tools as one toolset, for `Agent(toolsets=...)`.

    A call of a tool with side effects is deferred until it is approved in the framework. With `decide`, that function
    decides instead. For a source with connections use `export_tools_async`, in the event loop of the agent.

    Example:
        agent = Agent(model, toolsets=export_tools([get_weather]))
    """
    return [ExportedToolset(wrap_tools(tools, decide), has_own_approval=decide is not deny_all, id=id)]


async def export_tools_async(
    tools: ExportableTools, decide: DecideInput = deny_all, *, id: str | None = None
) -> list[AbstractToolset[object]]:
    """Like `export_tools`, in the running event loop."""
    return [ExportedToolset(await wrap_tools_async(tools, decide), has_own_approval=decide is not deny_all, id=id)]


class ExportedToolset(AbstractToolset[object]):
    """Exported Ferrule tools. Arguments are validated before approval is requested, and again before a tool runs."""

    def __init__(self, tools: Iterable[ExportedTool], *, has_own_approval: bool, id: str | None) -> None:
        self._tools = {tool.definition.name: tool for tool in tools}
        self._asks_itself = has_own_approval
        self._id = id

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        return {name: self._tool(tool) for name, tool in self._tools.items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[object], tool: ToolsetTool[object]
    ) -> Any:
        is_approved = ctx.tool_call_approved
        result = await self._tools[name].call(tool_args, ctx.tool_call_id or "", is_approved=is_approved)
        if result.is_error:
            # The validator already reported errors that the model can correct. Other errors must not cause a retry.
            raise ToolFailed(result.text)
        return result.content

    def _tool(self, tool: ExportedTool) -> ToolsetTool[object]:
        ours = tool.definition
        is_deferred = tool.executor.requires_confirmation(ToolCall.of(ours.name)) and not self._asks_itself
        definition = TheirDefinition(
            name=ours.name,
            description=ours.description,
            parameters_json_schema=ours.parameters,
            kind="unapproved" if is_deferred else "function",
        )
        check = _Check(checker_for(ours.parameters))
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=_RETRIES, args_validator=check)


@dataclass(frozen=True, slots=True)
class _Check:
    """Ferrule's schema checker behind the interface of a Pydantic validator."""

    checker: Checker

    def validate_json(self, input: str | bytes | bytearray, *, allow_partial: _Partial = False, **kwargs: Any) -> Any:
        text = input if isinstance(input, str) else input.decode()
        _refuse(self.checker.faults_of_text(text))
        return loads(text)

    def validate_python(self, input: Any, *, allow_partial: _Partial = False, **kwargs: Any) -> Any:
        _refuse(self.checker.faults(input))
        return input


def _refuse(faults: tuple[Fault, ...]) -> None:
    if faults:
        raise ModelRetry(f"invalid_arguments: {'; '.join(map(str, faults))}")
