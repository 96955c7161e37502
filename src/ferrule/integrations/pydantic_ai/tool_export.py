"""Our tools as a toolset of Pydantic AI. Knows no model."""

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
from ferrule.integrations.exported_tools import Lendable, LentTool, lend_now
from ferrule.integrations.exported_tools import lend as lend_in_loop
from ferrule.run.loop import Decide, nobody
from ferrule.schema.checker import Checker, checker_for

_RETRIES = 1
"""How often a model may correct its arguments, as the framework has it where nobody says otherwise."""
_Partial = bool | Literal["off", "on", "trailing-strings"]


def lend(tools: Lendable, decide: Decide = nobody, *, id: str | None = None) -> list[AbstractToolset[object]]:
    """Our tools as one toolset, for `Agent(toolsets=...)`.

    A tool that changes the world is deferred until the framework is told that it is approved; with `decide`, that is
    asked instead. For a source with connections use `alend`, in the loop that the agent runs in.
    """
    return [LentToolset(lend_now(tools, decide), asks_itself=decide is not nobody, id=id)]


async def alend(tools: Lendable, decide: Decide = nobody, *, id: str | None = None) -> list[AbstractToolset[object]]:
    """The same, in this loop."""
    return [LentToolset(await lend_in_loop(tools, decide), asks_itself=decide is not nobody, id=id)]


class LentToolset(AbstractToolset[object]):
    """Tools of ours. Arguments are checked before anybody is asked for leave, and again before they run."""

    def __init__(self, tools: Iterable[LentTool], *, asks_itself: bool, id: str | None) -> None:
        self._tools = {tool.definition.name: tool for tool in tools}
        self._asks_itself = asks_itself
        self._id = id

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        return {name: self._tool(tool) for name, tool in self._tools.items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[object], tool: ToolsetTool[object]
    ) -> Any:
        has_leave = ctx.tool_call_approved
        result = await self._tools[name].call(tool_args, ctx.tool_call_id or "", has_leave=has_leave)
        if result.is_error:
            # What the model can mend was told before the call; the rest it is told without being sent to try again.
            raise ToolFailed(result.text)
        return result.content

    def _tool(self, tool: LentTool) -> ToolsetTool[object]:
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
    """Our checker where the framework wants a validator of Pydantic's."""

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
