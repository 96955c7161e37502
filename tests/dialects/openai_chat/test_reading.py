"""Request bodies of clients, and the errors for invalid ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChatMessage, ChoiceMode, DefinitionError, Role, Text, ToolCall, ToolChoice
from ferrule.dialects.field import wants_stream
from ferrule.dialects.openai_chat.request_decoder import read_request, uses_functions, wants_usage
from ferrule.dialects.openai_chat.request_encoder import request_body

HELLO = {"role": "user", "content": "Hello"}
PING = {"type": "function", "function": {"name": "ping"}}
FIND = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}, "strict": True}}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [HELLO], **fields}


def test_a_small_body_is_enough() -> None:
    request = read_request(body())
    assert request.messages == (ChatMessage.user("Hello"),)
    assert request.model == "m"
    assert request.tools == ()


def test_what_is_null_or_unknown_is_passed_over() -> None:
    odd = body(tools=None, tool_choice=None, temperature=None, stop=None, response_format=None, store=True, user="ann")
    assert read_request(odd) == read_request(body())


@pytest.mark.parametrize(
    "value, expected",
    [
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        ("required", ToolChoice.required()),
        (PING, ToolChoice.one("ping")),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [PING, FIND]}},
            ToolChoice.allowed(["ping", "find"], ChoiceMode.REQUIRED),
        ),
        ({"type": "allowed_tools", "allowed_tools": {"tools": [PING]}}, ToolChoice.allowed(["ping"])),
    ],
)
def test_a_choice_is_read(value: Any, expected: ToolChoice) -> None:
    assert read_request(body(tools=[PING, FIND], tool_choice=value)).tool_choice == expected


@pytest.mark.parametrize(
    "value, expected",
    [("auto", ToolChoice.auto()), ("none", ToolChoice.none()), ({"name": "ping"}, ToolChoice.one("ping"))],
)
def test_the_older_functions_are_tools_of_which_one_is_called(value: Any, expected: ToolChoice) -> None:
    old = body(functions=[{"name": "ping"}], function_call=value)
    request = read_request(old)
    assert [tool.name for tool in request.tools] == ["ping"]
    assert request.tool_choice == expected
    assert not request.parallel_tool_calls
    assert uses_functions(old)
    assert not uses_functions(body(tools=[PING]))


def test_a_conversation_of_the_older_api_is_read() -> None:
    messages = [
        HELLO,
        {"role": "assistant", "content": None, "function_call": {"name": "ping", "arguments": "{}"}},
        {"role": "function", "name": "ping", "content": "pong"},
    ]
    assert read_request(body(messages=messages)).messages[1:] == (
        ChatMessage.assistant(tool_calls=[ToolCall.of("ping", "{}", id="call_1")]),
        ChatMessage.tool("call_1", "pong", "ping"),
    )


def test_content_may_be_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": parts}, {"role": "tool", "tool_call_id": "x", "content": parts}]
    assert read_request(body(messages=messages)).messages == (
        ChatMessage(Role.SYSTEM, (Text("a"), Text("b"))),
        ChatMessage.tool("x", "ab"),
    )


def test_a_result_gets_the_name_of_the_call_that_it_answers() -> None:
    call = ToolCall.of("ping", "{}", id="c")
    messages = [{"role": "assistant", "tool_calls": [call.as_openai()]}]
    messages.append({"role": "tool", "tool_call_id": "c", "content": "pong", "name": "something else"})
    assert read_request(body(messages=messages)).messages[1] == ChatMessage.tool("c", "pong", "ping")


@pytest.mark.parametrize(
    "fields, schema",
    [
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"type": "object"}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}}}}, {"a": 1}),
        ({"guided_json_schema": {"a": 1}}, {"a": 1}),
    ],
)
def test_the_schema_of_the_answer_is_read(fields: dict[str, Any], schema: Any) -> None:
    assert read_request(body(**fields)).response_schema == schema


def test_the_newer_name_of_the_token_limit_counts() -> None:
    assert read_request(body(max_tokens=5)).max_tokens == 5
    assert read_request(body(max_tokens=5, max_completion_tokens=6)).max_tokens == 6


def test_one_stop_may_be_a_string() -> None:
    assert read_request(body(stop="END")).stop == ("END",)


def test_streaming_and_usage_are_requested_in_the_body() -> None:
    streaming = body(stream=True, stream_options={"include_usage": True})
    assert (wants_stream(streaming), wants_usage(streaming)) == (True, True)
    assert (wants_stream(body()), wants_usage(body())) == (False, False)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tools": [PING, PING]}, "tools[1]"),
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [{"role": "robot"}]}, "messages[0].role"),
    ({"messages": [HELLO, {"role": "user", "content": 7}]}, "messages[1].content"),
    ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]}]},
        "messages[0].tool_calls[0].function.arguments",
    ),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "function": {"name": "no name"}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}, "tools[0].function.parameters"),
    ({"tools": [PING], "tool_choice": "sometimes"}, "tool_choice"),
    ({"tools": [PING], "tool_choice": {"type": "function", "function": {"name": "find"}}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [PING], "tool_choice": {"type": "mcp"}}, "tool_choice.type"),
    ({"max_tokens": "many"}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"temperature": True}, "temperature"),
    ({"n": 2}, "n"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_object"}, "guided_json_schema": {"a": 1}}, "guided_json_schema"),
]


@pytest.mark.parametrize("fields, path", WRONG, ids=[path for _, path in WRONG])
def test_a_wrong_body_is_refused_with_the_path_and_what_to_do(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_request(body(**fields))
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.hint


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["messages", "tools", "functions", "tool_choice", "n", "stop", "response_format", "max_tokens", "top_p"]


@given(st.dictionaries(st.sampled_from(FIELDS), junk))
def test_any_body_is_read_or_refused(fields: dict[str, Any]) -> None:
    with suppress(DefinitionError):
        read_request(body(**fields))


def test_an_error_of_a_tool_is_marked_in_the_text() -> None:
    request = read_request(body())
    messages = (*request.messages, ChatMessage.tool("c", "no such city", is_error=True))
    encoded = request_body(type(request)(messages=messages), model="m", stream=False)
    assert encoded["messages"][-1]["content"] == "Error: no such city"


def test_text_beside_results_is_refused() -> None:
    message = ChatMessage(Role.TOOL, (Text("x"),))
    with pytest.raises(DefinitionError):
        request_body(type(read_request(body()))(messages=(message,)), model="m", stream=False)


def test_earlier_reasoning_is_sent_only_on_request() -> None:
    request = type(read_request(body()))(messages=(ChatMessage.assistant("Hi", reasoning="hm"),))
    assert request_body(request, model="m", stream=False)["messages"] == [{"role": "assistant", "content": "Hi"}]
    streaming = request_body(request, model="m", stream=False, reasoning=True)["messages"]
    assert streaming[0]["reasoning_content"] == "hm"


def test_strict_and_the_older_token_field_are_sent_on_request() -> None:
    request = read_request(body(tools=[PING], max_tokens=5))
    encoded = request_body(request, model="m", stream=False, strict=True, max_tokens_field="max_tokens")
    assert encoded["tools"][0]["function"]["strict"] is True
    assert encoded["max_tokens"] == 5
