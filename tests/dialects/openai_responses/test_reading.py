"""Request bodies of clients, and the errors for invalid ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import (
    ChatMessage,
    ChoiceMode,
    DefinitionError,
    FunctionCall,
    Reasoning,
    Reply,
    Role,
    Text,
    ToolCall,
    ToolCallRequest,
    ToolChoice,
)
from ferrule.core.call import How, Receipt
from ferrule.dialects.field import wants_stream
from ferrule.dialects.openai_responses.request_decoder import read_request
from ferrule.dialects.openai_responses.request_encoder import request_body
from ferrule.dialects.openai_responses.response_body import body_of

PING = {"type": "function", "name": "ping", "parameters": None, "strict": None}
FIND = {"type": "function", "name": "find", "parameters": {"type": "object"}}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": "Hello", **fields}


def test_a_small_body_is_enough() -> None:
    assert read_request(body()) == ToolCallRequest(messages=(ChatMessage.user("Hello"),), model="m")
    assert not wants_stream(body())
    assert wants_stream(body(stream=True))


def test_items_of_one_turn_become_one_message_in_their_order() -> None:
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        {"role": "user", "content": "Hello"},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Wait", "annotations": []},
                {"type": "refusal", "refusal": "No"},
            ],
        },
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "ping", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "pong"}]},
        {"role": "assistant", "content": "Done"},
    ]
    request = read_request(body(input=items, instructions="Help."))
    call = ToolCall.of("ping", "{}", id="c")
    assert request.messages == (
        ChatMessage.system("Help."),
        ChatMessage.system("Be kind."),
        ChatMessage.user("Hello"),
        ChatMessage(Role.ASSISTANT, (Reasoning("hm"), Text("Wait"), Text("No"), call)),
        ChatMessage.tool("c", "pong", "ping"),
        ChatMessage.assistant("Done"),
    )


@pytest.mark.parametrize(
    "value, expected",
    [
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        ("required", ToolChoice.required()),
        ({"type": "function", "name": "ping"}, ToolChoice.one("ping")),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [PING, FIND]},
            ToolChoice.allowed(["ping", "find"], ChoiceMode.REQUIRED),
        ),
    ],
)
def test_a_choice_is_read(value: Any, expected: ToolChoice) -> None:
    assert read_request(body(tools=[PING, FIND], tool_choice=value)).tool_choice == expected


@pytest.mark.parametrize(
    "format, schema",
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "name": "n", "schema": {"a": 1}}, {"a": 1}),
    ],
)
def test_the_schema_of_the_answer_is_read(format: dict[str, Any], schema: Any) -> None:
    assert read_request(body(text={"format": format, "verbosity": "low"})).response_schema == schema


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tools": [PING, PING]}, "tools[1]"),
    ({"input": []}, "input"),
    ({"input": None}, "input"),
    ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": [{"type": "input_video"}]}]}, "input[0].content[0].type"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
    ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, "input[0].arguments"),
    ({"previous_response_id": "resp_0"}, "previous_response_id"),
    ({"background": True}, "background"),
    ({"conversation": "conv_0"}, "conversation"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0].server_label"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
    ({"tools": [PING], "tool_choice": {"type": "function", "name": "pong"}}, "tool_choice"),
    ({"tools": [PING], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
    ({"tools": [PING], "tool_choice": {"type": "mcp", "server_label": "x"}}, "tool_choice.server_label"),
    (
        {"tools": [PING], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "shell"}]}},
        "tool_choice.tools[0].type",
    ),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"max_output_tokens": "many"}, "max_output_tokens"),
    (
        {"input": [{"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}]},
        "input",
    ),
    ({"include": "all"}, "include"),
    ({"include": [1]}, "include[0]"),
    ({"reasoning": "much"}, "reasoning"),
    ({"truncation": "some"}, "truncation"),
    ({"store": "yes"}, "store"),
    ({"max_tool_calls": 0}, "max_tool_calls"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": {"a": "x" * 513}}, "metadata"),
    ({"metadata": {"x" * 65: "a"}}, "metadata"),
    ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
]


@pytest.mark.parametrize("fields, path", WRONG, ids=[f"{at} {path}" for at, (_, path) in enumerate(WRONG)])
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
FIELDS = ["input", "instructions", "tools", "tool_choice", "text", "max_output_tokens", "top_p", "conversation"]


@given(st.dictionaries(st.sampled_from(FIELDS), junk))
def test_any_body_is_read_or_refused(fields: dict[str, Any]) -> None:
    with suppress(DefinitionError):
        read_request(body(**fields))


def test_earlier_reasoning_is_sent_only_on_request_and_an_incomplete_call_never() -> None:
    cut = ToolCall("c", FunctionCall("ping", "{"), complete=False)
    message = ChatMessage(Role.ASSISTANT, (Reasoning("hm"), Text("Hi"), cut))
    request = ToolCallRequest(messages=(message,))
    assert [item["type"] for item in request_body(request, model="m", stream=False)["input"]] == ["message"]
    items = request_body(request, model="m", stream=False, reasoning=True)["input"]
    assert [item["type"] for item in items] == ["reasoning", "message"]


def test_an_error_of_a_tool_is_marked_in_the_text() -> None:
    request = ToolCallRequest(messages=(ChatMessage.tool("c", "no such city", is_error=True),))
    assert request_body(request, model="m", stream=False)["input"][0]["output"] == "Error: no such city"


def test_a_response_echoes_the_request_and_carries_receipts_beside_it() -> None:
    receipt = Receipt(how=How.VALIDATED, engine="e", path="p")
    request = read_request(body(tools=[FIND], tool_choice="required", parallel_tool_calls=False))
    call = ToolCall("c", FunctionCall("find"), receipt=receipt)
    response = body_of(Reply.of(call), id="resp_1", model="m", created=7, request=request)
    assert response["tools"] == [{**FIND, "strict": False}]
    assert response["tool_choice"] == "required"
    assert response["parallel_tool_calls"] is False
    assert response["status"] == "completed"
    assert response["ferrule"] == {"receipts": {"c": receipt.as_dict()}}
