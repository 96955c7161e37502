"""Request bodies of clients, and the errors for invalid ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS
from ferrule import (
    ChatMessage,
    ChoiceMode,
    DefinitionError,
    FerruleError,
    FunctionCall,
    Reasoning,
    Reply,
    Role,
    Text,
    ToolCall,
    ToolCallRequest,
    ToolChoice,
    ToolResult,
)
from ferrule.core.call import How, Receipt
from ferrule.dialects.anthropic.request_decoder import read_request
from ferrule.dialects.anthropic.request_encoder import request_body
from ferrule.dialects.anthropic.response_body import body_of, count_body, error_body
from ferrule.dialects.field import wants_stream

HELLO = {"role": "user", "content": "Hello"}
PING = {"name": "ping", "input_schema": {"type": "object"}}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 100, "messages": [HELLO], **fields}


def encode(*messages: ChatMessage, **options: Any) -> dict[str, Any]:
    return request_body(ToolCallRequest(messages=messages), model="m", stream=False, **options)


def test_what_claude_code_sends_is_read() -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", **cached}]},
        {"role": "system", "content": "Mind the gap."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "x"},
                {"type": "tool_use", "id": "t", "name": "ping", "input": {"a": 1}, "caller": None},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "pong", **cached},
                {"type": "text", "text": "Go on."},
            ],
        },
    ]
    fields = {
        "system": [{"type": "text", "text": "You help."}, {"type": "text", "text": "Be kind.", **cached}],
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": []},
        "output_config": {"effort": "high"},
        "metadata": {"user_id": "x"},
        "stream": True,
        "tools": [{**PING, "defer_loading": True, "eager_input_streaming": True, **cached}],
    }
    request = read_request(body(messages=messages, **fields))
    assert request.messages == (
        ChatMessage(Role.SYSTEM, (Text("You help."), Text("Be kind."))),
        ChatMessage(Role.USER, (Text("a"), Text("b"))),
        ChatMessage.system("Mind the gap."),
        ChatMessage(Role.ASSISTANT, (Reasoning("hm", "x"), ToolCall.of("ping", {"a": 1}, id="t"))),
        ChatMessage.tool("t", "pong", "ping"),
        ChatMessage.user("Go on."),
    )
    assert request.response_schema is None
    assert wants_stream(body(**fields))


@pytest.mark.parametrize(
    "value, expected, parallel",
    [
        ({"type": "auto"}, ToolChoice.auto(), True),
        ({"type": "none"}, ToolChoice.none(), True),
        ({"type": "any"}, ToolChoice.required(), True),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice.required(), False),
        ({"type": "tool", "name": "ping"}, ToolChoice.one("ping"), True),
    ],
)
def test_a_choice_is_read(value: Any, expected: ToolChoice, parallel: bool) -> None:
    request = read_request(body(tools=[PING], tool_choice=value))
    assert (request.tool_choice, request.parallel_tool_calls) == (expected, parallel)


@pytest.mark.parametrize("mode, encoded", [(ChoiceMode.AUTO, None), (ChoiceMode.REQUIRED, {"type": "any"})])
def test_a_subset_is_encoded_by_offering_only_that(mode: ChoiceMode, encoded: Any) -> None:
    choice = ToolChoice.allowed(["ping", "get"], mode)
    request = ToolCallRequest(messages=(ChatMessage.user("x"),), tools=TOOLS, tool_choice=choice)
    response = request_body(request, model="m", stream=False)
    assert [tool["name"] for tool in response["tools"]] == ["ping", "get"]
    assert response.get("tool_choice") == encoded


def test_a_result_may_be_blocks_and_may_be_an_error() -> None:
    other = {"type": "search_result", "title": "x"}
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, other]
    results = [
        {"type": "tool_result", "tool_use_id": "t", "content": blocks, "is_error": True},
        {"type": "tool_result", "tool_use_id": "u"},
    ]
    first, second = read_request(body(messages=[{"role": "user", "content": results}])).messages
    assert first.results == (ToolResult("t", "", 'ab{"type": "search_result", "title": "x"}', True),)
    assert second.results == (ToolResult("u", "", ""),)


def test_results_of_one_turn_are_sent_in_one_message() -> None:
    calls = [ToolCall.of("ping", id="a"), ToolCall.of("ping", id="b")]
    results = [ChatMessage.tool("a", {"n": 1}), ChatMessage.tool("b", "no", is_error=True)]
    messages = encode(ChatMessage.assistant(tool_calls=calls), *results, ChatMessage.user("x"))["messages"]
    assert [message["role"] for message in messages] == ["assistant", "user", "user"]
    assert messages[1]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": '{"n": 1}'},
        {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
    ]


def test_thinking_is_sent_only_on_request_and_an_incomplete_call_never() -> None:
    cut = ToolCall("c", FunctionCall("ping", "{"), complete=False)
    message = ChatMessage(Role.ASSISTANT, (Reasoning("hm"), Text("Hi"), cut))
    assert [block["type"] for block in encode(message)["messages"][0]["content"]] == ["text"]
    blocks = encode(message, reasoning=True)["messages"][0]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]


def test_an_earlier_call_with_broken_arguments_is_refused() -> None:
    with pytest.raises(DefinitionError, match="ping"):
        encode(ChatMessage.assistant(tool_calls=[ToolCall.of("ping", "{")]))


def test_the_newer_version_gets_no_sampling_parameters() -> None:
    request = ToolCallRequest(messages=(ChatMessage.user("x"),), temperature=0.5, top_k=3)
    assert {"temperature", "top_k"} <= request_body(request, model="m", stream=False).keys()
    assert not {"temperature", "top_k"} & request_body(request, model="m", stream=False, sampling=False).keys()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tools": [PING, PING]}, "tools[1]"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]}, "messages[0].content[0].type"),
    (
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": "{}"}]}]},
        "messages[0].content[0].input",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{}]}]}]},
        "messages[0].content[0].content[0].type",
    ),
    ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, "tools[0].type"),
    ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"),
    ({"tools": [PING], "tool_choice": {"type": "required"}}, "tool_choice.type"),
    ({"tools": [PING], "tool_choice": {"type": "tool", "name": "pong"}}, "tool_choice"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({"max_tokens": "many"}, "max_tokens"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
]


@pytest.mark.parametrize("fields, path", WRONG, ids=[path for _, path in WRONG])
def test_a_wrong_body_is_refused_with_the_path_and_what_to_do(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_request(body(**fields))
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.hint


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "type"]), inner),
    max_leaves=8,
)
FIELDS = ["messages", "tools", "system", "tool_choice", "stop_sequences", "output_config", "max_tokens", "top_p"]


@given(st.dictionaries(st.sampled_from(FIELDS), junk))
def test_any_body_is_read_or_refused(fields: dict[str, Any]) -> None:
    with suppress(DefinitionError):
        read_request(body(**fields))


def test_a_number_too_large_for_json_is_refused() -> None:
    use = {"type": "tool_use", "id": "a", "name": "b", "input": {"x": float("inf")}}
    with pytest.raises(DefinitionError, match="too large"):
        read_request(body(messages=[{"role": "assistant", "content": [use]}]))


def test_a_receipt_rides_in_the_extension() -> None:
    receipt = Receipt(how=How.VALIDATED, engine="e", path="p")
    response = body_of(Reply.of(ToolCall("c", FunctionCall("ping"), receipt=receipt)), id="m", model="m")
    assert response["ferrule"] == {"receipts": {"c": receipt.as_dict()}}


def test_a_count_and_an_error_have_their_bodies() -> None:
    assert count_body(7) == {"input_tokens": 7}
    refused = error_body(DefinitionError("n: is odd", hint="Send 1."), "req_1")
    value = {"type": "invalid_request_error", "message": "n: is odd. Send 1."}
    extension = {"error": {"code": "bad_request", "retryable": False}}
    assert refused == {"type": "error", "error": value, "request_id": "req_1", "ferrule": extension}
    assert error_body(FerruleError("broke"))["error"]["type"] == "api_error"
