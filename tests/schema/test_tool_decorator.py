"""The decorator: a function stays callable, keeps its types, and has the definition of a tool."""

from __future__ import annotations

from typing import assert_type

import pytest

from ferrule import DefinitionError, FunctionTool, tool


@tool
def get_weather(city: str, days: int = 1) -> list[str]:
    """The weather in a city.

    Args:
        city: where to look
    """
    return [f"{city}: clear"] * days


@tool(name="post.offer", description="Put up an offer", side_effects=True, bound_to=("market.post", "1.2"))
def post(title: str) -> str:
    """Not shown."""
    return title.upper()


@tool()
def ping() -> None:
    """Nothing."""


def test_a_decorated_function_is_called_as_before() -> None:
    assert get_weather("Paris", days=2) == ["Paris: clear", "Paris: clear"]
    assert post("boat") == "BOAT"
    assert ping() is None


def test_types_are_kept_for_the_type_checker() -> None:
    assert_type(get_weather("Paris"), list[str])
    assert_type(post(title="boat"), str)
    assert isinstance(get_weather, FunctionTool)


def test_the_definition_comes_from_hints_and_docstring() -> None:
    definition = get_weather.definition
    assert definition.name == "get_weather"
    assert definition.description == "The weather in a city."
    assert definition.required == ("city",)
    assert definition.properties["city"] == {"type": "string", "description": "where to look"}
    assert definition.properties["days"]["type"] == "integer"
    assert (definition.bound_capability, definition.bound_version, definition.side_effects) == (None, None, False)


def test_explicit_arguments_override_inferred_values() -> None:
    definition = post.definition
    assert definition.name == "post.offer"
    assert definition.description == "Put up an offer"
    assert definition.side_effects
    assert (definition.bound_capability, definition.bound_version) == ("market.post", "1.2")


def test_parentheses_without_arguments_change_nothing() -> None:
    def echo(text: str) -> str:
        """Say it again."""
        return text

    assert tool()(echo).definition == tool(echo).definition


def test_the_function_itself_is_still_there() -> None:
    def echo(text: str) -> str:
        return text

    assert tool(echo).function is echo


def test_a_name_that_no_tool_may_have_is_refused_where_it_is_given() -> None:
    with pytest.raises(DefinitionError, match="is not a tool name"):
        tool(name="two words")(get_weather.function)
