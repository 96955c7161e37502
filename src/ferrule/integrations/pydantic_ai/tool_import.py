"""Tools and toolsets of Pydantic AI as a source of ours. Knows no model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import ToolCallPart, ToolReturn, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import RunContext, Tool
from pydantic_ai.tools import ToolDefinition as TheirDefinition
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset
from pydantic_ai.usage import RunUsage

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, ToolError
from ferrule.sources.source import Source
from ferrule.sources.tool_exceptions import Raised

Borrowable = AbstractToolset[Any] | Tool[Any] | Callable[..., Any]


def borrow(
    tools: Iterable[Borrowable], *, deps: Any = None, side_effects: Iterable[str] = (), id: str = "pydantic-ai"
) -> Source:
    """Their tools and toolsets as a source of ours. `deps` is what their tools find in their context.

    A tool that asks for approval changes the world here, and so do those named in `side_effects`. One whose result
    comes from elsewhere is not offered. A toolset with connections is opened and closed with the source.
    """
    own = FunctionToolset[Any]()
    toolsets: list[AbstractToolset[Any]] = [own]
    for tool in tools:
        if isinstance(tool, AbstractToolset):
            toolsets.append(cast("AbstractToolset[Any]", tool))
        else:
            own.add_tool(cast("Tool[Any]", tool) if isinstance(tool, Tool) else Tool[Any](tool))
    return _BorrowedToolset(CombinedToolset[Any](toolsets), deps, frozenset(side_effects), id)


class _BorrowedToolset(Source):
    def __init__(self, toolset: AbstractToolset[Any], deps: Any, side_effects: frozenset[str], id: str) -> None:
        self.id = id
        self._side_effects = side_effects
        self._toolset = toolset
        self._deps = deps
        self._external: tuple[str, ...] = ()
        self._manager: ToolManager[Any] | None = None

    @property
    def held_back(self) -> tuple[str, ...]:
        return self._external

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(f"{name} is not offered: its result comes from elsewhere" for name in self._external)

    async def open(self) -> None:
        await self._toolset.__aenter__()

    async def close(self) -> None:
        await self._toolset.__aexit__(None, None, None)

    async def tools(self) -> tuple[ToolDefinition, ...]:
        # Their tools want a model in their context; nobody asks it anything.
        context = RunContext[Any](deps=self._deps, model=TestModel(), usage=RunUsage())
        self._manager = await ToolManager[Any](self._toolset).for_run_step(context)
        found = self._manager.tool_defs
        missing = self._side_effects - {tool.name for tool in found}
        if missing:
            told = f"{', '.join(sorted(missing))} is not among the tools"
            raise DefinitionError(told, hint=f"They are: {', '.join(tool.name for tool in found)}.")
        self._external = tuple(tool.name for tool in found if tool.kind == "external")
        return tuple(self._definition(tool) for tool in found if tool.kind != "external")

    def _definition(self, tool: TheirDefinition) -> ToolDefinition:
        changes = tool.kind == "unapproved" or tool.name in self._side_effects
        return ToolDefinition(tool.name, tool.description or "", tool.parameters_json_schema, side_effects=changes)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        manager = self._manager
        if manager is None or manager.get_tool_def(name) is None or name in self._external:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        raised = Raised()
        with raised:
            return Answered(await _ran(manager, ToolCallPart(name, dict(arguments), context.call_id)))
        return raised.outcome


async def _ran(manager: ToolManager[Any], call: ToolCallPart) -> Any:
    try:
        # Whoever calls a source has asked for leave already.
        checked = await manager.validate_tool_call(call, approved=True, wrap_validation_errors=False)
    except (ModelRetry, ToolFailed) as told:
        raise ToolError(told.message) from told
    except ValueError as refusal:
        # What their own types refuse and the schema does not say. The last line of each is an address to read at.
        lines = [line.strip() for line in str(refusal).splitlines() if "further information" not in line]
        raise ToolError(f"invalid_arguments: {' '.join(lines)}") from refusal
    try:
        value = await manager.execute_tool_call(checked, wrap_validation_errors=False)
    except (ModelRetry, ToolFailed) as told:
        raise ToolError(told.message) from told
    except (CallDeferred, ApprovalRequired) as deferred:
        raise ToolError("the tool put the call off, and nobody here can go on with it") from deferred
    given: Any = cast("ToolReturn[Any]", value).return_value if isinstance(value, ToolReturn) else value
    if ToolReturnPart[Any](call.tool_name, given).files:
        raise ToolError("the tool gave a file, and only text and JSON can be handed on")
    return given
