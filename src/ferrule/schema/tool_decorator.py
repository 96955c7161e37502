"""The `tool` decorator: make a tool definition from a Python function's type hints and docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from ferrule.core.context import CallContext
from ferrule.core.conversion import register_function_converter
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.schema.inference import infer

INJECTED: frozenset[type] = frozenset({CallContext})
"""Parameter types that the model does not fill in: the executor supplies their values."""
_RECEIVERS = ("self", "cls")
P = ParamSpec("P")
R = TypeVar("R")
_Rest = ParamSpec("_Rest")


class Receiver(Enum):
    """What a function's first parameter is bound to when the function is read from an object."""

    NONE = auto()
    """Nothing: a plain function, a static method, or a method that is bound already."""
    INSTANCE = auto()
    CLASS = auto()


class Isolation(StrEnum):
    """Where a function runs."""

    NONE = "none"
    """In this process: a plain function in a thread, an async function in the event loop."""
    PROCESS = "process"
    """In a worker process, which is killed at the call's deadline."""

    @staticmethod
    def of(name: str) -> Isolation:
        try:
            return Isolation(name)
        except ValueError:
            names = ", ".join(map(repr, Isolation))
            raise DefinitionError(f"there is no isolation {name!r:.40}", hint=f"Use one of {names}.") from None


IsolationName: TypeAlias = Isolation | Literal["none", "process"]


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

    A method works too. Read it from an instance, which it is then bound to:

        class Shop:
            @tool
            def price(self, article: str) -> float:
                "The price of an article."
                return self.prices[article]

        conversation = ToolConversation(engine, [shop.price])
    """

    function: Callable[P, R]
    definition: ToolDefinition
    receiver: Receiver = Receiver.NONE
    isolation: Isolation = Isolation.NONE

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> FunctionTool[P, R]: ...

    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, _Rest], R], instance: object, owner: type[Any] | None = None
    ) -> FunctionTool[_Rest, R]: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> FunctionTool[..., R]:
        """Return the tool that is bound to the instance, as Python does for a plain method."""
        match self.receiver:
            case Receiver.INSTANCE if instance is not None:
                bound_to = instance
            case Receiver.CLASS:
                bound_to = owner or type(instance)
            case _:
                return self
        return FunctionTool(MethodType(self.function, bound_to), self.definition, isolation=self.isolation)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    side_effects: bool = False,
    bound_to: tuple[str, str] | None = None,
    isolation: IsolationName = Isolation.NONE,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    side_effects: bool = False,
    bound_to: tuple[str, str] | None = None,
    isolation: IsolationName = Isolation.NONE,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool from a function: `@tool`, or `@tool(side_effects=True)`.

    The name, the description and the parameters come from the function's name, docstring and type hints. In a class
    it makes a tool of a method, a `staticmethod` or a `classmethod`.

    Args:
        function: The function, if the decorator is used without parentheses.
        name: The tool's name, if it differs from the function's.
        description: The description, if it differs from the docstring.
        side_effects: Whether a call changes something. Such calls run at most once, and only after approval.
        bound_to: A capability and its version.
        isolation: "process" runs the function in a worker process, which is killed at the call's deadline. It must be
            a function of a module.

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

    def define(decorated: Callable[P, R]) -> FunctionTool[P, R]:
        function, receiver = _split_receiver(decorated)
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
        return FunctionTool(function, definition, receiver, Isolation.of(isolation))

    return define if function is None else define(function)


def _split_receiver(function: Callable[P, R]) -> tuple[Callable[P, R], Receiver]:
    """Return the plain function behind a decorated one, and what its first parameter is bound to."""
    if isinstance(function, staticmethod):
        return cast("Callable[P, R]", function.__func__), Receiver.NONE
    if isinstance(function, classmethod):
        return cast("Callable[P, R]", cast("classmethod[Any, P, R]", function).__func__), Receiver.CLASS
    # By name, as the schema does, because a function is decorated before its class exists.
    is_method = inspect.isfunction(function) and next(iter(inspect.signature(function).parameters), "") in _RECEIVERS
    return function, Receiver.INSTANCE if is_method else Receiver.NONE


def _definition_of(function: Callable[..., Any]) -> ToolDefinition:
    return tool(function).definition


# So that a request's `tools` may be plain functions: core makes requests, and must not know type hints.
register_function_converter(_definition_of)
