"""The `tool` decorator: make a tool definition from a Python function's type hints and docstring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, overload

from ferrule.core.context import CallContext
from ferrule.core.conversion import register_function_converter
from ferrule.core.tool import ToolDefinition
from ferrule.schema.inference import infer

INJECTED: frozenset[type] = frozenset({CallContext})
"""Parameter types that the model does not fill in: the executor supplies their values."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FunctionTool(Generic[P, R]):
    """A function that is also a tool: call it as before, or pass `definition` to a model.

    The `tool` decorator returns it.

    Example:
        @tool
        def get_weather(city: str) -> str:
            "The weather in a city."
            return f"{city}: clear"

        get_weather("Paris")                 # "Paris: clear"
        get_weather.definition.name          # "get_weather"
        get_weather.definition.required      # ("city",)
    """

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
    """Make a tool from a function: `@tool`, or `@tool(side_effects=True)`.

    The name, the description and the parameters come from the function's name, docstring and type hints.

    Args:
        function: The function, if the decorator is used without parentheses.
        name: The tool's name, if it differs from the function's.
        description: The description, if it differs from the docstring.
        side_effects: Whether a call changes something. Such calls run at most once, and only after approval.
        bound_to: A capability and its version.

    Example:
        @tool
        def get_weather(city: str, days: int = 1) -> str:
            '''The weather in a city.

            Args:
                city: Where to look.
            '''
            return f"{city}: clear for {days} days"

        @tool(side_effects=True)
        def book_table(guests: int) -> str:
            '''Book a table.'''
            return "booked"
    """

    def define(function: Callable[P, R]) -> FunctionTool[P, R]:
        inferred = infer(function, INJECTED)
        capability, version = bound_to or (None, None)
        definition = ToolDefinition(
            name or inferred.name,
            description or inferred.description,
            inferred.parameters,
            capability,
            version,
            side_effects,
        )
        return FunctionTool(function, definition)

    return define if function is None else define(function)


def _definition_of(function: Callable[..., Any]) -> ToolDefinition:
    return tool(function).definition


# So that a request's `tools` may be plain functions: core makes requests, and must not know type hints.
register_function_converter(_definition_of)
