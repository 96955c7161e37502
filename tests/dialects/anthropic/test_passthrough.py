"""An engine with Anthropic's API gets what the client wrote: every block, every tool, every byte of a signature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ferrule import ChatMessage, Reasoning, Role, ToolChoice
from ferrule.core.request import ChoicePolicy
from ferrule.dialects.anthropic.passthrough import still_ignored
from ferrule.dialects.anthropic.request_decoder import read_request
from ferrule.dialects.anthropic.request_encoder import request_body

CACHED = {"cache_control": {"type": "ephemeral"}}
OBJECT = {"type": "object"}
# The shape of what Claude Code sends in the third turn of a conversation with a search for tools.
BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 32000,
    "stream": True,
    "system": [{"type": "text", "text": "x-header: y"}, {"type": "text", "text": "You help.", **CACHED}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Notes"}, {"type": "text", "text": "Add 1 and 2."}]},
        {"role": "system", "content": [{"type": "text", "text": "Deferred tools: total", **CACHED}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "c2ln+/=="},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "tool_use", "id": "t", "name": "ToolSearch", "input": {"query": "select:total"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "tool_reference", "tool_name": "total"}],
                    **CACHED,
                }
            ],
        },
    ],
    "tools": [
        {"name": "ToolSearch", "input_schema": OBJECT, "eager_input_streaming": True},
        {"name": "DeferredToolPlaceholder", "input_schema": OBJECT, "defer_loading": True},
        {"type": "bash_20250124", "name": "bash"},
        {"name": "total", "input_schema": OBJECT, "defer_loading": True, "input_examples": [{}], **CACHED},
    ],
    "thinking": {"type": "adaptive", "display": "updates"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "metadata": {"user_id": "{}"},
}


def test_an_unchanged_request_goes_on_as_the_client_wrote_it() -> None:
    assert request_body(read_request(BODY), model="m", stream=True) == BODY


def test_what_a_loop_adds_stands_behind_what_the_client_wrote() -> None:
    request = read_request(BODY)
    added = ChatMessage(Role.ASSISTANT, (Reasoning("So.", "bmV3"),))
    body = request_body(replace(request, messages=(*request.messages, added)), model="m", stream=True)
    assert body["messages"][:-1] == BODY["messages"]
    assert body["messages"][-1]["content"] == [{"type": "thinking", "thinking": "So.", "signature": "bmV3"}]


def test_a_changed_conversation_is_encoded_and_keeps_its_signatures() -> None:
    request = read_request(BODY)
    changed = (ChatMessage.system("Be brief."), *request.messages[1:])
    body = request_body(replace(request, messages=changed), model="m", stream=True)
    assert body["system"] == "Be brief."
    assert body["messages"][2]["content"] == BODY["messages"][2]["content"]


def test_one_tool_alone_goes_on_as_the_client_wrote_it() -> None:
    request = read_request(BODY)
    (total,) = [tool for tool in request.tools if tool.name == "total"]
    body = request_body(replace(request, tools=(total,), tool_choice=ToolChoice.one("total")), model="m", stream=True)
    assert body["tools"] == [BODY["tools"][-1]]
    assert body["tool_choice"] == {"type": "tool", "name": "total"}


def test_thinking_is_left_out_where_somebody_else_requires_a_call() -> None:
    required = replace(read_request(BODY), tool_choice_policy=ChoicePolicy.REQUIRED_ALWAYS)
    assert "thinking" not in request_body(required, model="m", stream=True)
    own = {**BODY, "tool_choice": {"type": "any"}}
    assert request_body(read_request(own), model="m", stream=True)["thinking"] == BODY["thinking"]


def test_the_search_goes_on_as_the_client_wrote_it_with_what_it_found() -> None:
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex", **CACHED}
    references = [{"type": "tool_reference", "tool_name": "total"}]
    found = {"type": "tool_search_tool_search_result", "tool_references": references}
    content = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": search["name"], "input": {"query": "total"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found},
    ]
    messages = [*BODY["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": "Go on."}]
    written = {**BODY, "messages": messages, "tools": [search, *BODY["tools"]]}
    assert request_body(read_request(written), model="m", stream=True) == written


def test_a_search_in_a_changed_conversation_is_encoded_as_the_clients_blocks() -> None:
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    references = [{"type": "tool_reference", "tool_name": "total"}]
    found = {"type": "tool_search_tool_search_result", "tool_references": references}
    content = [
        {"type": "text", "text": "Let me look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": search["name"], "input": {"query": "total"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found},
    ]
    after = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "total", "input": {}}]}
    done = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "3"}]}
    tools = [
        search,
        {"name": "now", "input_schema": OBJECT},
        {"name": "total", "input_schema": OBJECT, "defer_loading": True},
    ]
    user = {"role": "user", "content": "Go"}
    body = {
        "max_tokens": 9,
        "messages": [user, {**after, "content": [*content, *after["content"]]}, done],
        "tools": tools,
    }
    encoded = request_body(replace(read_request(body), client_body=None), model="m", stream=False)
    assert encoded["messages"] == [user, {"role": "assistant", "content": content}, after, done]
    assert [tool.get("defer_loading", False) for tool in encoded["tools"]] == [False, False, True]
    assert encoded["tools"][0] == search


def test_without_the_search_that_would_load_them_deferred_tools_are_sent_as_plain_ones() -> None:
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    request = replace(read_request({**BODY, "tools": [search, *BODY["tools"]]}), tool_search=None)
    body = request_body(request, model="m", stream=True)
    assert [tool["name"] for tool in body["tools"]] == [tool["name"] for tool in BODY["tools"]]
    assert {tool.name for tool in request.tools} == {tool["name"] for tool in body["tools"]}
    assert not any("defer_loading" in tool for tool in body["tools"])


def test_a_field_whose_name_begins_like_one_that_is_sent_on_is_still_reported() -> None:
    ignored = ("thinking", "thinking.budget_tokens", "thinking_extra", "context_management", "container")
    assert still_ignored(ignored) == ("thinking_extra", "container")


def test_a_tool_that_the_provider_runs_is_not_sent_on() -> None:
    search = {"type": "web_search_20260318", "name": "web_search"}
    body = request_body(read_request({**BODY, "tools": [search, *BODY["tools"]]}), model="m", stream=True)
    assert body["tools"] == BODY["tools"]
