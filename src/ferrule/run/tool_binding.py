"""Tool binding: what may be passed as `tools` to a conversation or a loop, and the executor that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

from ferrule.core.tool import ToolDefinition, ToolDefinitionBuilder
from ferrule.errors import DefinitionError
from ferrule.run.executor import ToolExecutor
from ferrule.schema.tool_decorator import FunctionTool
from ferrule.sources.functions import Functions
from ferrule.sources.source import Source

Tools: TypeAlias = (
    Source
    | ToolExecutor
    | Iterable[ToolDefinition | ToolDefinitionBuilder | FunctionTool[..., Any] | Callable[..., Any]]
)
"""Functions, a source or an executor, which run automatically; or definitions, whose calls the caller runs."""


def bind_tools(tools: Tools, **limits: Any) -> tuple[ToolExecutor | None, tuple[ToolDefinition, ...]]:
    """Return the executor that runs the tools, or the definitions if nothing runs them.

    `limits` are fields of the executor, such as `max_iterations`.
    """
    if isinstance(tools, ToolExecutor):
        if limits:
            raise DefinitionError(
                f"the executor has its own {', '.join(limits)}", hint="Write ToolExecutor(source, max_iterations=...)."
            )
        return tools, ()
    if isinstance(tools, Source):
        return ToolExecutor(tools, **limits), ()
    items = _to_items(tools)
    definitions = tuple(one for one in items if isinstance(one, ToolDefinition))
    functions = [one for one in items if not isinstance(one, ToolDefinition)]
    if definitions and functions:
        raise DefinitionError(
            "tools mix functions, which run automatically, with definitions, which do not",
            hint="Pass only functions, or only definitions and run every call yourself.",
        )
    return (ToolExecutor(Functions(functions), **limits), ()) if functions else (None, definitions)


def _to_items(tools: Any) -> tuple[ToolDefinition | FunctionTool[..., Any] | Callable[..., Any], ...]:
    if isinstance(tools, Iterable) and not isinstance(tools, str):
        items = tuple(
            one.done() if isinstance(one, ToolDefinitionBuilder) else one for one in cast("Iterable[Any]", tools)
        )
        strange = [one for one in items if not isinstance(one, ToolDefinition) and not callable(one)]
        if not strange:
            return items
        message = f"{strange[0]!r:.60} is not a tool"
    else:
        message = f"tools must be a list or a source, not {tools!r:.60}"
    raise DefinitionError(
        message, hint="Write [get_weather]: a list of functions or definitions, or a source such as McpServers."
    )
