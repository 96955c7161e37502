"""Pydantic AI tools and toolsets as a Ferrule source. It knows no model."""

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
from ferrule.core.outcome import NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, ToolError
from ferrule.sources.source import Source
from ferrule.sources.tool_exceptions import run_tool

ImportableTool = AbstractToolset[Any] | Tool[Any] | Callable[..., Any]


def import_tools(
    tools: Iterable[ImportableTool], *, deps: Any = None, side_effects: Iterable[str] = (), id: str = "pydantic-ai"
) -> Source:
    """Import tools and toolsets as a Ferrule source. `deps` are the dependencies in the tools' run context.

    A tool that requires approval has side effects here, and so do those named in `side_effects`. An external tool is
    not offered, because its result comes from elsewhere. A toolset is opened and closed with the source.

    Example:
        talk = ToolConversation(engine, import_tools([my_toolset]))
    """
    own = FunctionToolset[Any]()
    toolsets: list[AbstractToolset[Any]] = [own]
    for tool in tools:
        if isinstance(tool, AbstractToolset):
            toolsets.append(cast("AbstractToolset[Any]", tool))
        else:
            own.add_tool(cast("Tool[Any]", tool) if isinstance(tool, Tool) else Tool[Any](tool))
    return _ImportedToolset(CombinedToolset[Any](toolsets), deps, frozenset(side_effects), id)


class _ImportedToolset(Source):
    def __init__(self, toolset: AbstractToolset[Any], deps: Any, side_effects: frozenset[str], id: str) -> None:
        self.id = id
        self._side_effects = side_effects
        self._toolset = toolset
        self._deps = deps
        self._external: tuple[str, ...] = ()
        self._manager: ToolManager[Any] | None = None

    @property
    def quarantined(self) -> tuple[str, ...]:
        return self._external

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(f"{name} is not offered: it is an external tool" for name in self._external)

    async def open(self) -> None:
        await self._toolset.__aenter__()

    async def close(self) -> None:
        await self._toolset.__aexit__(None, None, None)

    async def tools(self) -> tuple[ToolDefinition, ...]:
        # A run context needs a model; this one is never called.
        context = RunContext[Any](deps=self._deps, model=TestModel(), usage=RunUsage())
        self._manager = await ToolManager[Any](self._toolset).for_run_step(context)
        definitions = self._manager.tool_defs
        missing = self._side_effects - {tool.name for tool in definitions}
        if missing:
            problem = f"side_effects names unknown tools: {', '.join(sorted(missing))}"
            raise DefinitionError(problem, hint=f"The tools are: {', '.join(tool.name for tool in definitions)}.")
        self._external = tuple(tool.name for tool in definitions if tool.kind == "external")
        return tuple(self._definition(tool) for tool in definitions if tool.kind != "external")

    def _definition(self, tool: TheirDefinition) -> ToolDefinition:
        has_side_effects = tool.kind == "unapproved" or tool.name in self._side_effects
        return ToolDefinition(
            tool.name, tool.description or "", tool.parameters_json_schema, side_effects=has_side_effects
        )

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        manager = self._manager
        if manager is None or manager.get_tool_def(name) is None or name in self._external:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return await run_tool(name, _run_tool(manager, ToolCallPart(name, dict(arguments), context.call_id)))


async def _run_tool(manager: ToolManager[Any], call: ToolCallPart) -> Any:
    try:
        # The caller of a source has already got the approval.
        validated = await manager.validate_tool_call(call, approved=True, wrap_validation_errors=False)
    except (ModelRetry, ToolFailed) as error:
        raise ToolError(error.message) from error
    except ValueError as error:
        # The tool's types may refuse more than the schema says. Pydantic ends each error with a URL; drop it.
        lines = [line.strip() for line in str(error).splitlines() if "further information" not in line]
        raise ToolError(f"invalid_arguments: {' '.join(lines)}") from error
    try:
        value = await manager.execute_tool_call(validated, wrap_validation_errors=False)
    except (ModelRetry, ToolFailed) as error:
        raise ToolError(error.message) from error
    except (CallDeferred, ApprovalRequired) as error:
        raise ToolError("the tool deferred the call, which is not supported here") from error
    result: Any = cast("ToolReturn[Any]", value).return_value if isinstance(value, ToolReturn) else value
    if ToolReturnPart[Any](call.tool_name, result).files:
        raise ToolError("the tool returned a file; only text and JSON are supported")
    return result
