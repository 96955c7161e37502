"""A framework's options, nearly those of OpenAI's chat API, become the right request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChatMessage, ChoicePolicy, DefinitionError, ToolChoice, ToolDefinition
from ferrule.integrations.request import request_of

HELLO = ChatMessage.user("Hello.")
TOOL = ToolDefinition("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def test_nothing_asked_for_is_the_engines_own_default() -> None:
    request = request_of([HELLO], {"temperature": None, "tools": None, "tool_choice": None, "unheard_of": 1})
    assert request == request_of([HELLO], {})
    assert (request.tools, request.tool_choice, request.temperature) == ((), ToolChoice.auto(), None)


@given(st.floats(0, 2), st.integers(1, 9999), st.integers(0), st.lists(st.text(min_size=1), max_size=3), st.booleans())
def test_settings_arrive_as_given(warmth: float, most: int, seed: int, stop: list[str], parallel: bool) -> None:
    words = {"temperature": warmth, "max_tokens": most, "seed": seed, "stop": stop, "parallel_tool_calls": parallel}
    request = request_of([HELLO], {**words, "tool_choice_policy": ChoicePolicy.REQUIRED_FIRST_HOP})
    assert (request.temperature, request.max_tokens, request.seed) == (warmth, most, seed)
    assert (request.stop, request.parallel_tool_calls) == (tuple(stop), parallel)
    assert request.tool_choice_policy is ChoicePolicy.REQUIRED_FIRST_HOP


@pytest.mark.parametrize(
    "word, choice",
    [
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        (False, ToolChoice.none()),
        ("any", ToolChoice.required()),
        ("required", ToolChoice.required()),
        (True, ToolChoice.required()),
        ("look", ToolChoice.one("look")),
        ({"type": "function", "function": {"name": "look"}}, ToolChoice.one("look")),
    ],
)
def test_a_choice_is_a_word_a_name_or_openais(word: Any, choice: ToolChoice) -> None:
    request = request_of([HELLO], {"tools": [TOOL.as_function()], "tool_choice": word})
    assert (request.tool_choice, request.tools) == (choice, (TOOL,))


@pytest.mark.parametrize(
    "format, schema",
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}, SCHEMA),
    ],
)
def test_a_format_of_the_answer_is_a_schema_of_it(format: Any, schema: Any) -> None:
    assert request_of([HELLO], {"response_format": format}).response_schema == schema


@pytest.mark.parametrize(
    "words, where",
    [
        ({"temperature": "hot"}, "temperature"),
        ({"tools": [{"type": "web_search"}]}, r"tools\[0\]"),
        ({"tools": [TOOL.as_function()] * 2}, r"tools\[1\]"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"tool_choice": {"type": "tool", "name": "look"}}, "tool_choice"),
    ],
)
def test_an_invalid_option_is_refused_with_its_path(words: dict[str, Any], where: str) -> None:
    with pytest.raises(DefinitionError, match=where):
        request_of([HELLO], words)
