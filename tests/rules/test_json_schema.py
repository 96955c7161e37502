from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import FormatError, ToolChoice, ToolDefinition
from ferrule.core.request import ChoiceMode
from ferrule.rules.json_schema import emit_json_schema
from laws.replies import TOOLS


def tool(name: str, **schema: Any) -> ToolDefinition:
    return ToolDefinition(name, parameters={"type": "object", **schema})


def fits(schema: dict[str, Any], reply: Any) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(reply)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


SIZED = tool("a.b", properties={"x": {"$ref": "#/$defs/size"}}, **{"$defs": {"size": {"type": "integer"}}})
NAMED = tool("a-b", properties={"x": {"$ref": "#/$defs/size"}}, **{"$defs": {"size": {"type": "string"}}})
TREE = tool("tree", properties={"sub": {"$ref": "#"}, "all": {"type": "array", "items": {"$ref": "#/properties/sub"}}})


@pytest.mark.parametrize("choice", [ToolChoice.auto(), ToolChoice.none(), ToolChoice.allowed(["ping"])])
def test_a_choice_that_lets_the_model_answer_is_refused_with_a_hint(choice: ToolChoice) -> None:
    with pytest.raises(FormatError, match="cannot express") as caught:
        emit_json_schema(TOOLS, choice)
    assert caught.value.hint


def test_parallel_calls_are_a_list_of_at_least_one() -> None:
    schema = emit_json_schema(TOOLS, ToolChoice.required())
    assert fits(schema, [call("ping"), call("get_weather", city="Paris")])
    assert not fits(schema, [])
    assert not fits(schema, call("ping"))


def test_without_parallel_calls_it_is_one_call() -> None:
    schema = emit_json_schema(TOOLS, ToolChoice.required(), parallel=False)
    assert fits(schema, call("ping"))
    assert not fits(schema, [call("ping")])


@pytest.mark.parametrize(
    "wrong",
    [
        call("pong"),
        call("get_weather"),
        call("get_weather", city=1),
        {"name": "ping"},
        {"arguments": {}},
        {**call("ping"), "why": "because"},
    ],
)
def test_a_call_that_does_not_fit_is_not_admitted(wrong: object) -> None:
    assert not fits(emit_json_schema(TOOLS, ToolChoice.required(), parallel=False), wrong)


def test_a_choice_of_some_tools_excludes_the_others() -> None:
    one = emit_json_schema(TOOLS, ToolChoice.one("ping"), parallel=False)
    few = emit_json_schema(TOOLS, ToolChoice.allowed(["ping", "get_weather"], ChoiceMode.REQUIRED), parallel=False)
    weather, files = call("get_weather", city="Paris"), call("search.files-2")
    assert [fits(one, call("ping")), fits(one, weather)] == [True, False]
    assert [fits(few, call("ping")), fits(few, weather), fits(few, files)] == [True, True, False]


def test_definitions_of_the_same_name_do_not_meet() -> None:
    schema = emit_json_schema((SIZED, NAMED), ToolChoice.required(), parallel=False)
    assert fits(schema, call("a.b", x=1))
    assert fits(schema, call("a-b", x="one"))
    assert not fits(schema, call("a.b", x="one"))
    assert not fits(schema, call("a-b", x=1))


def test_a_schema_that_contains_itself_still_does() -> None:
    schema = emit_json_schema((TREE, SIZED), ToolChoice.required(), parallel=False)
    assert fits(schema, call("tree", sub={"sub": {"all": [{}]}}))
    assert not fits(schema, call("tree", sub={"sub": 3}))
    assert not fits(schema, call("tree", all=[{"all": [3]}]))


def test_what_only_looks_like_a_reference_is_left_alone() -> None:
    odd = tool("odd", properties={"$ref": {"const": {"$ref": "#/x"}}}, default={"$ref": "#/y"})
    schema = emit_json_schema((odd,), ToolChoice.required(), parallel=False)
    assert schema["properties"]["arguments"] == odd.parameters
    assert fits(schema, {"name": "odd", "arguments": {"$ref": {"$ref": "#/x"}}})


def test_the_definitions_are_not_changed() -> None:
    before = json.dumps(SIZED.parameters)
    emit_json_schema((SIZED, NAMED), ToolChoice.required())
    assert json.dumps(SIZED.parameters) == before


@given(value=st.one_of(st.integers(), st.text(), st.none(), st.lists(st.integers(), max_size=2)))
def test_arguments_fit_where_they_fit_the_tool_itself(value: object) -> None:
    schema = emit_json_schema((SIZED, NAMED), ToolChoice.required(), parallel=False)
    for each in (SIZED, NAMED):
        assert fits(schema, call(each.name, x=value)) == fits(each.parameters, {"x": value})
