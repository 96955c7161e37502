"""The `tool` decorator: a Python function and the definition that its hints and docstring give. It runs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar, overload

from ferrule.core.context import CallContext
from ferrule.core.tool import ToolDefinition
from ferrule.schema.inference import infer

INJECTED: frozenset[type] = frozenset({CallContext})
"""Types of parameters that are not the model's to fill: whoever runs the function supplies them."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FunctionTool(Generic[P, R]):
    """A function that is also a tool: call it as before, or hand `definition` to a model."""

    function: Callable[P, R]
    definition: ToolDefinition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *, name: str = "", description: str = "", side_effects: bool = False, bound_to: tuple[str, str] | None = None
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    side_effects: bool = False,
    bound_to: tuple[str, str] | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function: `@tool`, or `@tool(side_effects=True)`. `bound_to` is a capability and its version."""

    def define(function: Callable[P, R]) -> FunctionTool[P, R]:
        found = infer(function, INJECTED)
        capability, version = bound_to or (None, None)
        definition = ToolDefinition(
            name or found.name, description or found.description, found.parameters, capability, version, side_effects
        )
        return FunctionTool(function, definition)

    return define if function is None else define(function)
