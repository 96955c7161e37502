"""Hosted calls that clients resend, as the messages that a model reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dialects.openai_responses.hosted_rounds import GET, HOSTED, WEATHER, Script, encoder, scripts
from dialects.replies import through_json
from ferrule import ChatMessage, Reasoning, Role, Text, ToolCall, ToolResult
from ferrule.dialects.openai_responses.output_items import failure_of
from ferrule.dialects.openai_responses.request_decoder import read_responses_request
from ferrule.dialects.openai_responses.responses_request import ApprovalAnswer

HOSTS = {"sky": (HOSTED[WEATHER.name],), "store": (HOSTED[GET.name],)}
ROME = ToolCall.of(WEATHER.name, '{"city": "Rome"}', id="mcp_1")
FETCH = ToolCall.of(GET.name, "{}", id="mcp_2")
ASKED = {"type": "mcp_approval_request", "id": "appr_1", "server_label": "store", "name": "fetch", "arguments": "{}"}
USER: dict[str, Any] = {"role": "user", "content": "Hi"}
SAID: dict[str, Any] = {"role": "assistant", "content": "Well"}


def call(at: int, label: str, name: str, arguments: str, **more: Any) -> dict[str, Any]:
    head = {"type": "mcp_call", "id": f"mcp_{at}", "server_label": label, "name": name}
    return {**head, "arguments": arguments, **more}


def answer(approve: bool, **more: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": "appr_1", "approve": approve, **more}


def read(*items: dict[str, Any]) -> tuple[tuple[ChatMessage, ...], tuple[ApprovalAnswer, ...]]:
    ask = read_responses_request({"input": list(items)}, HOSTS)
    return ask.request.messages, ask.approvals


def test_a_call_with_its_output_is_a_call_and_a_result_under_the_name_that_the_model_knows() -> None:
    listed = {"type": "mcp_list_tools", "id": "l", "server_label": "sky", "tools": [{"name": "x", "input_schema": {}}]}
    first = call(1, "sky", WEATHER.name, '{"city": "Rome"}', output="sun", status="completed", error=None)
    second = call(2, "store", "fetch", "{}", output=None, status="failed", error=failure_of("no such key"))
    messages, _ = read(USER, listed, first, second, SAID)
    assert messages == (
        ChatMessage.user("Hi"),
        ChatMessage(Role.ASSISTANT, (ROME, FETCH)),
        ChatMessage(
            Role.TOOL,
            (ToolResult("mcp_1", ROME.name, "sun"), ToolResult("mcp_2", "get", "no such key", is_error=True)),
        ),
        ChatMessage.assistant("Well"),
    )


@pytest.mark.parametrize(
    "error, words",
    [
        ("broke", "broke"),
        ({"type": "http_error", "code": 500, "message": "broke"}, "broke"),
        ({"type": "mcp_tool_execution_error", "content": "broke"}, "broke"),
        ({"type": "mcp_tool_execution_error", "content": [{"text": "bro"}, {"text": "ke"}]}, "broke"),
        ({}, "the tool failed"),
    ],
)
def test_an_error_is_read_in_every_spelling(error: Any, words: str) -> None:
    messages, _ = read(call(1, "sky", WEATHER.name, "{}", error=error))
    assert messages[1].results == (ToolResult("mcp_1", WEATHER.name, words, is_error=True),)


def test_a_call_that_was_broken_off_does_not_go_back_to_the_model() -> None:
    messages, _ = read(USER, call(1, "sky", WEATHER.name, '{"ci', status="incomplete"), SAID)
    assert messages == (ChatMessage.user("Hi"), ChatMessage.assistant("Well"))


def test_a_removed_tool_keeps_its_client_name() -> None:
    messages, _ = read(call(1, "sea", "dive", "{}", output="deep"))
    assert [call.name for call in messages[0].tool_calls] == ["dive"]


def test_an_answer_counts_until_the_assistant_continues() -> None:
    assert read(USER, ASKED, answer(True)) == ((ChatMessage.user("Hi"),), (ApprovalAnswer("appr_1", True),))
    ran = call(2, "store", "fetch", "{}", output="1", approval_request_id="appr_1")
    messages, approvals = read(USER, ASKED, answer(True), ran, SAID)
    assert not approvals
    assert [len(message.tool_calls) for message in messages] == [0, 1, 0, 0]


def test_the_model_reads_a_denial_as_in_the_loop() -> None:
    for items, words in (({"reason": "too early"}, "denied: too early"), ({}, "denied by the user")):
        messages, approvals = read(USER, ASKED, answer(False, **items), SAID)
        assert not approvals
        assert messages[1:3] == (
            ChatMessage(Role.ASSISTANT, (ToolCall.of("get", "{}", id="appr_1"),)),
            ChatMessage(Role.TOOL, (ToolResult("appr_1", "get", words, is_error=True),)),
        )


def test_one_of_two_requests_may_be_approved_and_the_other_denied() -> None:
    other = {**ASKED, "id": "appr_2"}
    ran = call(2, "store", "fetch", "{}", output="1", approval_request_id="appr_2")
    denied = answer(False)
    allowed = {**answer(True), "approval_request_id": "appr_2"}
    messages, _ = read(USER, ASKED, other, denied, allowed, ran, SAID)
    assert [call.id for call in messages[1].tool_calls] == ["appr_1", "mcp_2"]
    assert [result.is_error for result in messages[2].results] == [True, False]


def test_thoughts_text_and_calls_of_one_turn_stay_in_their_order() -> None:
    thought = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    messages, _ = read(thought, SAID, call(1, "sky", WEATHER.name, '{"city": "Rome"}', output="sun"), thought, SAID)
    assert messages == (
        ChatMessage(Role.ASSISTANT, (Reasoning("hm"), Text("Well"), ROME)),
        ChatMessage(Role.TOOL, (ToolResult("mcp_1", ROME.name, "sun"),)),
        ChatMessage(Role.ASSISTANT, (Reasoning("hm"), Text("Well"))),
    )


@given(scripts())
def test_whatever_was_answered_can_be_sent_back(script: Script) -> None:
    telling = encoder()
    script.encode_all(telling)
    output = through_json(telling.finish(waits=script.waits)[-1]["response"]["output"])
    messages, approvals = read(USER, *output)
    assert not approvals
    assert "".join(message.content for message in messages[1:]) == "".join(reply.text for reply in script.replies)
    results = [result for message in messages for result in message.results]
    assert sorted(result.content for result in results) == sorted(result.text for result in script.ran.values())
    called = {call.id: call.name for message in messages for call in message.tool_calls}
    assert all(called[result.tool_call_id] == result.name for result in results)
