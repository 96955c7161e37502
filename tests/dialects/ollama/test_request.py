"""Request bodies for Ollama, and how a call is forced without `tool_choice`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dialects.replies import TOOLS, through_json
from dialects.requests import requests
from ferrule import ChatMessage, ChoiceMode, DefinitionError, ToolCall, ToolCallRequest, ToolChoice, ToolDefinition
from ferrule.dialects.ollama.forced_call import format_for
from ferrule.dialects.ollama.request_encoder import request_body
from ferrule.schema.checker import Checker

NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#"}, "value": {"$ref": "#/$defs/value"}, "note": {"const": {"$ref": "#"}}},
    "required": ["value"],
    "$defs": {"value": {"type": "integer"}},
}


AUTO = ToolChoice.auto()


def request(choice: ToolChoice = AUTO, **fields: Any) -> ToolCallRequest:
    values: dict[str, Any] = {"messages": (ChatMessage.user("Hello"),), "tools": TOOLS, **fields}
    return ToolCallRequest(tool_choice=choice, **values)


def body(request: ToolCallRequest, **options: Any) -> dict[str, Any]:
    return request_body(request, model="m", stream=True, **options)


@given(requests())
def test_any_request_can_be_encoded(request: ToolCallRequest) -> None:
    encoded = body(request)
    assert through_json(encoded) == encoded
    assert ("format" in encoded) == (request.tool_choice.mode == "required" or request.response_schema is not None)


def test_a_plain_request_has_tools_and_options() -> None:
    encoded = body(request(max_tokens=5, temperature=0.0, top_k=3, seed=1, stop=("END",)), think="low")
    assert encoded == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [tool.as_function() for tool in TOOLS],
        "options": {"num_predict": 5, "temperature": 0.0, "top_k": 3, "seed": 1, "stop": ["END"]},
        "think": "low",
        "stream": True,
    }


def test_a_conversation_with_calls_is_encoded() -> None:
    call = ToolCall.of("ping", {"a": 1}, id="c")
    messages = (ChatMessage.assistant("x", [call], "hm"), ChatMessage.tool("c", "no", "ping", is_error=True))
    message = [
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [{"id": "c", "function": {"name": "ping", "arguments": {"a": 1}}}],
        },
        {"role": "tool", "content": "Error: no", "tool_name": "ping", "tool_call_id": "c"},
    ]
    assert body(request(messages=messages))["messages"] == message
    assert body(request(messages=messages), reasoning=True)["messages"][0]["thinking"] == "hm"


def test_an_earlier_call_with_broken_arguments_is_refused() -> None:
    with pytest.raises(DefinitionError):
        body(request(messages=(ChatMessage.assistant(tool_calls=[ToolCall.of("ping", "{")]),)))


def test_a_subset_is_offered_alone_and_none_offers_nothing() -> None:
    assert [tool["function"]["name"] for tool in body(request(ToolChoice.allowed(["ping"])))["tools"]] == ["ping"]
    assert "tools" not in body(request(ToolChoice.none()))


def test_no_format_is_needed_where_no_call_is_demanded() -> None:
    assert format_for(request()) is None
    assert format_for(request(ToolChoice.none())) is None


FORCED = [
    (ToolChoice.required(), "get_weather", {"city": "Paris"}, True),
    (ToolChoice.required(), "ping", {}, True),
    (ToolChoice.required(), "get_weather", {}, False),
    (ToolChoice.required(), "pong", {}, False),
    (ToolChoice.one("ping"), "ping", {}, True),
    (ToolChoice.one("ping"), "get", {}, False),
    (ToolChoice.allowed(["ping", "get"], ChoiceMode.REQUIRED), "get", {"key": "x"}, True),
    (ToolChoice.allowed(["ping", "get"], ChoiceMode.REQUIRED), "get_weather", {"city": "Paris"}, False),
]


@pytest.mark.parametrize("choice, name, arguments, fits", FORCED)
def test_the_format_admits_the_calls_that_the_choice_allows(
    choice: ToolChoice, name: str, arguments: dict[str, Any], fits: bool
) -> None:
    schema = format_for(request(choice))
    assert schema is not None
    assert (not Checker(schema).faults({"name": name, "arguments": arguments})) is fits


@pytest.mark.parametrize(
    "arguments, fits",
    [
        ({"value": 1}, True),
        ({"value": 1, "next": {"value": 2, "note": {"$ref": "#"}}}, True),
        ({"value": 1, "next": {}}, False),
        ({"value": "x"}, False),
    ],
)
def test_references_of_a_tool_still_point_into_its_own_schema(arguments: dict[str, Any], fits: bool) -> None:
    tools = (ToolDefinition("link", "", NODE), *TOOLS)
    schema = format_for(request(ToolChoice.required(), tools=tools))
    assert schema is not None
    assert (not Checker(schema).faults({"name": "link", "arguments": arguments})) is fits


def test_a_forced_call_takes_the_tools_into_the_system_message() -> None:
    messages = (ChatMessage.system("Be kind."), ChatMessage.user("Hello"))
    encoded = body(request(ToolChoice.one("ping"), messages=messages))
    assert "tools" not in encoded
    system = encoded["messages"][0]
    assert system["role"] == "system"
    assert system["content"].startswith("Be kind.\n\n")
    assert '"name": "ping"' in system["content"]
    assert "get_weather" not in system["content"]
    assert [message["role"] for message in body(request(ToolChoice.required()))["messages"]] == ["system", "user"]
