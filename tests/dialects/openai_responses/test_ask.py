"""The fields of a body besides the request: previous response, storage, servers and approvals."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS, through_json
from ferrule import ChatMessage, ChoiceMode, DefinitionError, ToolCall, ToolChoice
from ferrule.core.call import ToolResult
from ferrule.core.message import Role
from ferrule.dialects.openai_responses.hosted_tools import HostedTool
from ferrule.dialects.openai_responses.request_decoder import read_responses_request
from ferrule.dialects.openai_responses.response_body import head_of
from ferrule.dialects.openai_responses.responses_request import ApprovalAnswer, ResponsesRequest

WEATHER, GET, PING = TOOLS
WRITE = replace(GET, name="write", side_effects=True)
HOSTS = {
    "sky": (HostedTool(WEATHER, "sky"),),
    "store": (HostedTool(GET, "store", name="fetch"), HostedTool(WRITE, "store", may_need_approval=True)),
}
SKY: dict[str, Any] = {"type": "mcp", "server_label": "sky"}
STORE: dict[str, Any] = {"type": "mcp", "server_label": "store"}
OWN: dict[str, Any] = {"type": "function", "name": "mine"}


def ask(**fields: Any) -> ResponsesRequest:
    return read_responses_request({"model": "m", "input": "Hello", **fields}, HOSTS)


def approval(id: str, approve: bool = True, **more: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": id, "approve": approve, **more}


def test_what_is_left_out_is_as_the_api_has_it() -> None:
    read = ask()
    assert (read.store, read.background, read.stream) == (True, False, False)
    assert (read.previous_response_id, read.instructions, read.max_tool_calls) == (None, None, None)
    assert (read.approvals, read.servers, dict(read.metadata)) == ((), (), {})


def test_everything_else_is_read() -> None:
    read = ask(
        previous_response_id="resp_0",
        store=True,
        background=True,
        stream=True,
        instructions="Help.",
        max_tool_calls=3,
        metadata={"a": "b"},
        include=["reasoning.encrypted_content"],
        reasoning={"effort": "low"},
        truncation="auto",
        parallel_tool_calls=False,
    )
    assert (read.previous_response_id, read.background, read.stream) == ("resp_0", True, True)
    assert (read.instructions, read.max_tool_calls, dict(read.metadata)) == ("Help.", 3, {"a": "b"})
    assert read.request.messages == (ChatMessage.system("Help."), ChatMessage.user("Hello"))
    assert not read.request.parallel_tool_calls


def test_the_clients_fields_are_echoed_in_the_response() -> None:
    schema = {"type": "json_schema", "schema": {"type": "object"}}
    choice = {"type": "mcp", "server_label": "sky", "name": WEATHER.name}
    read = ask(tools=[OWN, SKY], tool_choice=choice, metadata={"a": "b"}, text={"format": schema}, store=False)
    head = head_of(id="r", model="m", created=7, request=read.request, responses_request=read)
    assert (head["tool_choice"], head["metadata"], head["store"]) == (choice, {"a": "b"}, False)
    assert [tool["type"] for tool in head["tools"]] == ["function", "mcp"]
    assert head["text"]["format"] == {**schema, "name": "response", "strict": True}
    assert head["truncation"] == "disabled"


def test_by_default_a_server_has_all_its_tools_and_every_call_needs_approval() -> None:
    (server,) = ask(tools=[STORE]).servers
    assert (server.label, server.names, server.approval_required) == ("store", ("get", "write"), {"get", "write"})


@pytest.mark.parametrize(
    "allowed, names",
    [
        (["fetch"], ("get",)),
        (["write", "fetch", "write"], ("write", "get")),
        ([], ()),
        ({"tool_names": ["write"]}, ("write",)),
        ({"read_only": True}, ("get",)),
        ({"read_only": False}, ("write",)),
        ({"read_only": True, "tool_names": ["write"]}, ()),
        ({}, ("get", "write")),
    ],
)
def test_tools_are_allowed_by_the_names_that_clients_know_or_by_what_they_do(
    allowed: Any, names: tuple[str, ...]
) -> None:
    assert ask(tools=[{**STORE, "allowed_tools": allowed}]).servers[0].names == names


@pytest.mark.parametrize(
    "required, expected",
    [
        ("always", {"get", "write"}),
        ("never", set[str]()),
        ({"always": {"tool_names": ["write"]}}, {"write"}),
        ({"never": {"tool_names": ["fetch"]}}, {"write"}),
        ({"never": {"read_only": True}}, {"write"}),
        ({"always": {"tool_names": ["write"]}, "never": {"tool_names": ["fetch"]}}, {"write"}),
        ({"always": {"read_only": True}, "never": {}}, {"get"}),
        ({"always": {}, "never": {}}, {"get", "write"}),
        ({"always": {"tool_names": []}, "never": {"tool_names": []}}, {"get", "write"}),
        ({}, {"get", "write"}),
    ],
)
def test_approval_is_required_unless_it_is_waived(required: Any, expected: set[str]) -> None:
    read = ask(tools=[{**STORE, "require_approval": required}])
    assert read.approval_required == expected
    # Approval that the gateway itself requires cannot be waived by the client.
    waits = {name for name, tool in read.hosted_tools.items() if tool.may_need_approval}
    assert waits == expected | {"write"}


def test_of_two_labels_for_one_tool_the_first_counts() -> None:
    hosts = {**HOSTS, "all": (HostedTool(GET, "all"), HostedTool(WEATHER, "all"))}
    body = {"input": "x", "tools": [STORE, {"type": "mcp", "server_label": "all"}]}
    tools = read_responses_request(body, hosts).hosted_tools
    assert {name: tool.label for name, tool in tools.items()} == {"get": "store", "write": "store", WEATHER.name: "all"}


@pytest.mark.parametrize(
    "value, expected",
    [
        ({"type": "mcp", "server_label": "sky"}, ToolChoice.one(WEATHER.name)),
        ({"type": "mcp", "server_label": "store"}, ToolChoice.allowed(["get", "write"], ChoiceMode.REQUIRED)),
        ({"type": "mcp", "server_label": "store", "name": "fetch"}, ToolChoice.one("get")),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [OWN, {"type": "mcp", "server_label": "sky"}]},
            ToolChoice.allowed(["mine", WEATHER.name]),
        ),
        ("required", ToolChoice.required()),
    ],
)
def test_a_servers_tools_can_be_chosen(value: Any, expected: ToolChoice) -> None:
    assert ask(tools=[OWN, SKY, STORE], tool_choice=value).request.tool_choice == expected


def test_a_servers_tools_alone_are_enough_to_require_a_call() -> None:
    assert ask(tools=[SKY], tool_choice="required").request.tools == ()


WRONG: list[tuple[dict[str, Any], str]] = [
    *[
        ({"tools": [{**SKY, name: "x"}]}, f"tools[0].{name}")
        for name in ("server_url", "connector_id", "tunnel_id", "authorization", "headers")
    ],
    ({"tools": [{"type": "mcp", "server_label": "sea"}]}, "tools[0].server_label"),
    ({"tools": [{"type": "mcp"}]}, "tools[0].server_label"),
    ({"tools": [SKY, SKY]}, "tools[1].server_label"),
    ({"tools": [{**SKY, "defer_loading": "yes"}]}, "tools[0].defer_loading"),
    ({"tools": [{**STORE, "allowed_tools": ["get"]}]}, "tools[0].allowed_tools[0]"),
    ({"tools": [{**STORE, "require_approval": "sometimes"}]}, "tools[0].require_approval"),
    ({"tools": [{**STORE, "require_approval": {"always": ["write"]}}]}, "tools[0].require_approval.always"),
    ({"tools": [SKY, {"type": "function", "name": WEATHER.name}]}, "tools"),
    ({"tools": [SKY], "tool_choice": {"type": "mcp", "server_label": "store"}}, "tool_choice.server_label"),
    ({"tools": [SKY], "tool_choice": {"type": "mcp", "server_label": "sky", "name": "x"}}, "tool_choice.name"),
    ({"tools": [{**SKY, "allowed_tools": []}], "tool_choice": {**SKY}}, "tool_choice"),
    ({"background": True, "store": False}, "background"),
    ({"input": [{"type": "item_reference", "id": "x"}], "previous_response_id": "r"}, "input[0].type"),
    ({"input": [approval("a"), approval("a")]}, "input[1].approval_request_id"),
    ({"input": [{"type": "mcp_approval_response", "approval_request_id": "a"}]}, "input[0].approve"),
]


@pytest.mark.parametrize("fields, path", WRONG, ids=[f"{at} {path}" for at, (_, path) in enumerate(WRONG)])
def test_a_wrong_body_is_refused_with_the_path_and_what_to_do(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        ask(**fields)
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.hint


def test_a_reference_is_refused_with_the_way_to_do_without_it() -> None:
    with pytest.raises(DefinitionError) as caught:
        ask(input=[{"type": "item_reference", "id": "x"}])
    assert "previous_response_id" in caught.value.hint


def test_answers_to_approval_requests_are_read() -> None:
    read = ask(previous_response_id="resp_0", input=[approval("a"), approval("b", False, reason="no")])
    assert read.approvals == (ApprovalAnswer("a", True), ApprovalAnswer("b", False, "no"))
    assert read.request.messages == ()


def test_an_earlier_conversation_goes_between_the_instructions_and_the_input() -> None:
    call = ToolCall.of("mine", "{}", id="c")
    history = (ChatMessage.system("Old."), ChatMessage.user("Hi"), ChatMessage.assistant("", [call]))
    items = [{"type": "function_call_output", "call_id": "c", "output": "1"}, {"role": "user", "content": "So?"}]
    read = ask(previous_response_id="r", instructions="New.", input=items)
    assert read.with_history(history, instructions="Old.").messages == (
        ChatMessage.system("New."),
        *history[1:],
        ChatMessage(Role.TOOL, (ToolResult("c", "mine", "1"),)),
        ChatMessage.user("So?"),
    )
    assert ask().with_history(history).messages == (*history, ChatMessage.user("Hello"))


keys = ["type", "server_label", "allowed_tools", "require_approval", "always", "tool_names", "id", "name", "arguments"]
words = st.sampled_from(
    ["mcp", "sky", "store", "mcp_call", "mcp_approval_request", "mcp_list_tools", "always", "fetch"]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=5),
    max_leaves=12,
)
FIELDS = ["input", "tools", "tool_choice", "metadata", "include", "reasoning", "truncation", "store", "max_tool_calls"]


@given(st.dictionaries(st.sampled_from(FIELDS), junk))
def test_any_body_is_read_or_refused_and_a_read_one_can_be_echoed(fields: dict[str, Any]) -> None:
    with suppress(DefinitionError):
        read = ask(**fields)
        through_json(head_of(id="r", model="m", created=7, request=read.request, responses_request=read))
