"""A call keeps its arguments as the text that the model wrote; values are read from it on demand."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import FunctionCall, ToolCall, ToolResult
from schema.json_values import json_objects, json_values

FORTY_DIGITS = "1234567890" * 4


@given(st.text())
def test_arguments_given_as_text_are_kept_to_the_letter(text: str) -> None:
    assert ToolCall.of("f", text).function.arguments == text
    assert ToolCall.of("f", text).as_openai()["function"]["arguments"] == text


@given(json_objects)
def test_arguments_given_as_a_mapping_come_back_as_the_same_values(arguments: dict[str, Any]) -> None:
    call = ToolCall.of("f", arguments)
    assert call.arguments == arguments
    assert call.function.arguments == json.dumps(arguments, ensure_ascii=False)


@pytest.mark.parametrize("number", ["1.0", "1e3", "1E+3", "-0", FORTY_DIGITS, f"0.{FORTY_DIGITS}"])
def test_a_number_is_not_respelled(number: str) -> None:
    text = f'{{"n": {number}}}'
    assert ToolCall.of("f", text).function.arguments == text


def test_a_large_integer_is_read_exactly() -> None:
    assert ToolCall.of("f", f'{{"n": {FORTY_DIGITS}}}').arguments == {"n": int(FORTY_DIGITS)}


@pytest.mark.parametrize("text", ["", "{", '{"a": NaN}', "{'a': 1}", "[1]", '"a"', "null", "3", "{} {}"])
def test_arguments_that_are_not_a_json_object_have_no_values(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        _ = ToolCall.of("f", text).arguments


def test_a_call_is_a_function_call_and_complete_unless_said_otherwise() -> None:
    call = ToolCall("c1", FunctionCall("ping"))
    assert (call.type, call.complete, call.name, call.arguments) == ("function", True, "ping", {})


def test_the_openai_spelling_of_a_call() -> None:
    assert ToolCall.of("f", {"é": 1}, id="c1").as_openai() == {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"é": 1}'},
    }


def test_a_call_cannot_be_changed_after_it_was_made() -> None:
    call = ToolCall.of("f")
    with pytest.raises(FrozenInstanceError):
        call.complete = False  # pyright: ignore[reportAttributeAccessIssue]


@given(json_values.filter(lambda value: not isinstance(value, str)))
def test_a_result_that_is_a_value_is_read_by_the_model_as_json(value: object) -> None:
    assert ToolResult("c1", "f", value).text == json.dumps(value, ensure_ascii=False)


@given(st.text())
def test_a_result_that_is_text_is_read_by_the_model_as_it_is(text: str) -> None:
    assert ToolResult("c1", "f", text).text == text


def test_a_result_is_a_success_unless_it_says_otherwise() -> None:
    assert not ToolResult("c1", "f", "ok").is_error
