"""A tool's definition: the builder, the rules for names, and the fingerprint."""

from __future__ import annotations

import string
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import DefinitionError, JsonSchema, TextGrammar, ToolDefinition
from ferrule.core.json_text import digest

WEATHER = (
    ToolDefinition.build("get_weather")
    .description("The weather in a city")
    .parameter("city", JsonSchema.string(), "where", required=True)
    .parameter("days", JsonSchema.integer())
    .bound_to("weather.forecast", "2.1")
    .side_effects()
    .done()
)
OTHER_VALUES: dict[str, Any] = {
    "name": "get_wind",
    "description": "The wind in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "bound_capability": "wind.forecast",
    "bound_version": "2.2",
    "side_effects": False,
}

first_characters = string.ascii_letters + "_"
names = st.builds(
    str.__add__, st.sampled_from(first_characters), st.text(first_characters + string.digits + ".-", max_size=127)
)


@given(names)
def test_letters_digits_dots_and_dashes_make_a_name(name: str) -> None:
    assert ToolDefinition(name).name == name


@given(st.text().filter(lambda text: not set(text) <= set(first_characters + string.digits + ".-")))
def test_any_other_character_makes_it_no_name(name: str) -> None:
    with pytest.raises(DefinitionError, match="is not a tool name") as refusal:
        ToolDefinition(name)
    assert "letter" in refusal.value.hint


@pytest.mark.parametrize("name", ["", "1st", ".hidden", "-x", "get weather", "get_weather\n", "é", "a" * 129])
def test_a_name_that_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        ToolDefinition(name)


def test_the_builder_makes_the_definition_that_was_described() -> None:
    described = ToolDefinition(
        name="get_weather",
        description="The weather in a city",
        parameters={
            "type": "object",
            "properties": {"city": {"type": "string", "description": "where"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
        bound_capability="weather.forecast",
        bound_version="2.1",
        side_effects=True,
    )
    assert described == WEATHER


def test_required_names_may_come_before_their_parameters_and_twice() -> None:
    tool = ToolDefinition.build("f").required("a", "b").parameter("b", {}, required=True).parameter("a", {}).done()
    assert tool.required == ("a", "b")


def test_a_required_name_that_no_parameter_has_is_refused_by_name() -> None:
    builder = ToolDefinition.build("get_weather").parameter("city", JsonSchema.string()).required("city", "cty", "dy")
    with pytest.raises(DefinitionError, match="cty, dy") as refusal:
        builder.done()
    assert ".parameter(" in refusal.value.hint


def test_a_builder_can_be_continued_twice() -> None:
    begun = ToolDefinition.build("f").parameter("a", {})
    assert set(begun.parameter("b", {}).done().properties) == {"a", "b"}
    assert set(begun.parameter("c", {}).done().properties) == {"a", "c"}


def test_a_schema_given_to_the_builder_is_not_changed() -> None:
    schema = JsonSchema.string()
    ToolDefinition.build("f").parameter("a", schema, "described").done()
    assert schema == {"type": "string"}


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    tool = ToolDefinition.build("ping").done()
    assert tool.parameters == {"type": "object", "properties": {}}
    assert tool.required == ()


def test_every_field_has_another_value_to_be_tried() -> None:
    custom = {"is_custom", "input_grammar"}
    assert set(OTHER_VALUES) | custom == {field.name for field in fields(ToolDefinition) if field.compare}


def test_the_fingerprint_of_a_custom_tool_changes_with_its_kind_and_its_grammar() -> None:
    plain = ToolDefinition.custom("patch", "Patches")
    function = replace(plain, is_custom=False)
    word, number = (replace(plain, input_grammar=TextGrammar("regex", regex)) for regex in ("[a-z]+", "[0-9]+"))
    lark = replace(plain, input_grammar=TextGrammar("lark", "[a-z]+"))
    assert len({tool.fingerprint for tool in (plain, function, word, number, lark)}) == 5
    assert len({plain, function, word, number, lark}) == 5


def test_the_fingerprint_of_a_function_is_the_one_that_earlier_approvals_hold() -> None:
    assert ToolDefinition("ping").fingerprint == digest(
        ["ping", "", {"type": "object", "properties": {}}, [None, None, False]]
    )


def test_a_custom_tool_takes_one_required_text() -> None:
    grammar = TextGrammar("lark", 'start: "a"+')
    tool = ToolDefinition.custom("patch", "Patches", grammar, side_effects=True)
    assert (tool.is_custom, tool.input_grammar, tool.side_effects) == (True, grammar, True)
    assert tool.required == ("input",)
    assert tool.properties == {"input": {"type": "string"}}
    assert not ToolDefinition("ping").is_custom


def test_a_grammar_on_a_function_is_refused() -> None:
    with pytest.raises(DefinitionError, match="custom"):
        ToolDefinition("ping", input_grammar=TextGrammar("regex", "a"))
    with pytest.raises(DefinitionError, match="exactly one text"):
        ToolDefinition("ping", is_custom=True)


@pytest.mark.parametrize("data", [{}, {"syntax": "ebnf", "definition": "a"}, {"syntax": "lark", "definition": " "}])
def test_a_grammar_without_a_known_syntax_or_a_definition_is_refused(data: dict[str, str]) -> None:
    with pytest.raises(DefinitionError) as refusal:
        TextGrammar.from_json(data)
    assert refusal.value.hint


@pytest.mark.parametrize("field", OTHER_VALUES)
def test_the_fingerprint_changes_with(field: str) -> None:
    assert replace(WEATHER, **{field: OTHER_VALUES[field]}).fingerprint != WEATHER.fingerprint


def test_the_fingerprint_is_the_same_for_equal_definitions_whatever_the_order_of_keys() -> None:
    turned = dict(reversed(WEATHER.parameters.items()))
    assert list(turned) != list(WEATHER.parameters)
    assert replace(WEATHER, parameters=turned).fingerprint == WEATHER.fingerprint


def test_as_function_is_the_spelling_that_clients_and_templates_know() -> None:
    assert WEATHER.as_function() == {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city",
            "parameters": WEATHER.parameters,
        },
    }
