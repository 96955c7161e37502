"""The decorator: a function stays callable, keeps its types, and has the definition of a tool."""

from __future__ import annotations

from typing import Any, assert_type

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


class Shop:
    """A class with one tool of each kind."""

    currency = "EUR"

    def __init__(self, city: str) -> None:
        self.city = city

    @tool
    def price(self, article: str, count: int = 1) -> str:
        """The price of an article."""
        return f"{count} {article} in {self.city}"

    @tool
    @classmethod
    def convert(cls, amount: float) -> str:
        """Convert an amount."""
        return f"{amount} {cls.currency}"

    @tool
    @staticmethod
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


class ShopInBern(Shop):
    """Another currency."""

    currency = "CHF"


def test_a_method_read_from_an_instance_is_a_tool_bound_to_it() -> None:
    paris, rome = Shop("Paris"), Shop("Rome")
    assert isinstance(paris.price, FunctionTool)
    assert_type(paris.price("boat"), str)
    assert [paris.price("boat"), rome.price("boat", count=2)] == ["1 boat in Paris", "2 boat in Rome"]
    assert paris.price == paris.price
    assert paris.price != rome.price


def test_the_schema_of_a_method_does_not_show_its_receiver() -> None:
    assert set(Shop.price.definition.properties) == {"article", "count"}
    assert Shop("Paris").price.definition == Shop.price.definition
    assert set(Shop.convert.definition.properties) == {"amount"}


def test_a_method_read_from_its_class_takes_the_instance_first() -> None:
    assert Shop.price(Shop("Paris"), "boat") == "1 boat in Paris"


def test_class_and_static_methods_are_tools_on_the_class_and_on_instances() -> None:
    # `Any`, because a type checker does not follow a decorator around a class method.
    converters: list[Any] = [Shop.convert, ShopInBern.convert, ShopInBern("Bern").convert]
    assert [convert(2) for convert in converters] == ["2 EUR", "2 CHF", "2 CHF"]
    adders: list[Any] = [Shop.add, Shop("Paris").add]
    assert [add(1, 2) for add in adders] == [3, 3]
    assert all(isinstance(each, FunctionTool) for each in (*converters, *adders))


def test_a_function_that_a_class_only_refers_to_is_not_bound() -> None:
    class Holder:
        """Refers to a tool of the module."""

        weather = get_weather

    assert Holder.weather is get_weather
    read_from_instance: object = Holder().weather
    assert read_from_instance is get_weather
