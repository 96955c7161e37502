"""Namespaces, custom tools and the caller's tool search: the model gets functions, the caller gets its own items."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.openai_responses.codex_requests import (
    ADDITIONAL,
    AGENTS,
    CUSTOM_CALL,
    EXEC,
    FOUND,
    KNOWN_MODEL,
    NESTED_CALLS,
    PATCH,
    PATCH_GRAMMAR,
    PROMPT,
    REQUESTS,
    SEARCH,
    SEARCH_CALL,
    TINY,
    WEB,
    call,
    custom,
    function,
    namespace,
    output,
)
from dialects.openai_responses.hosted_rounds import check_events
from dialects.replies import through_json
from ferrule import ChoiceMode, DefinitionError, Reply, Role, TextGrammar, ToolCall, ToolResult
from ferrule.core.call import TOOL_SEARCH, How, Receipt
from ferrule.core.event import Event
from ferrule.core.json_text import dumps
from ferrule.core.tool import is_tool_name
from ferrule.core.tool_search import found_names
from ferrule.dialects.openai_responses.client_tools import client_tools_as_json, client_tools_from_json
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.hosted_tools import HostedTool
from ferrule.dialects.openai_responses.request_decoder import read_request, read_responses_request
from ferrule.dialects.openai_responses.response_body import head_of
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.openai_responses.stored_response import input_items
from ferrule.engines.fake import events_of

Items = list[dict[str, Any]]
RECEIPT = Receipt(how=How.GRAMMAR, engine="e", path="p")


def read(*items: dict[str, Any], tools: Items | None = None, **fields: Any) -> ResponsesRequest:
    return read_responses_request({"input": [*PROMPT, *items], "tools": tools or [], **fields})


def names(request: ResponsesRequest) -> list[str]:
    return [tool.name for tool in request.request.tools]


def encode(request: ResponsesRequest, events: list[Event]) -> Items:
    """Return the events of an answer, which go through another process's hands after each one."""
    head = head_of(id="resp_1", model="m", created=7, request=request.request, responses_request=request)
    encoder = HostedEncoder(head, {}, client_tools_from_json(through_json(client_tools_as_json(request.client_tools))))
    out = [one for event in events for one in encoder.feed(event)] + encoder.finish()
    check_events(out)
    return out


def answered(request: ResponsesRequest, *calls: ToolCall) -> Items:
    return encode(request, list(events_of(Reply.of(*calls))))[-1]["response"]["output"]


@pytest.mark.parametrize("name", REQUESTS)
def test_every_shape_that_codex_sends_is_read_and_its_own_calls_come_back_as_it_sent_them(name: str) -> None:
    body = REQUESTS[name]
    request = read_responses_request(body)
    assert all(is_tool_name(tool.name) and len(tool.name) <= 64 for tool in request.request.tools)
    sent = [item for item in body["input"] if item.get("type", "").endswith("_call")]
    calls = [one for message in request.request.messages for one in message.tool_calls]
    assert len(calls) == len(sent)
    assert all(one.name in names(request) for one in calls)
    results = [part for message in request.request.messages for part in message.results]
    assert [(one.tool_call_id, one.name) for one in results] == [(one.id, one.name) for one in calls]
    volatile = {"id", "ferrule", "status"}
    for item, again in zip(answered(request, *calls), sent, strict=True):
        shown = {key: value for key, value in item.items() if key not in volatile}
        wanted = {key: value for key, value in again.items() if key not in volatile}
        if "code model" in name:
            # Codex leaves the namespace out of a call that it was sent without one.
            wanted["namespace"] = "functions"
        assert shown == wanted


@pytest.mark.parametrize("name", REQUESTS)
def test_the_items_of_a_request_are_listed_with_everything_that_was_sent(name: str) -> None:
    sent = REQUESTS[name]["input"]
    listed = input_items(REQUESTS[name], "resp_1")
    for item, shown in zip(sent, listed, strict=True):
        if item["type"] == "message" or item["type"].endswith("call_output"):
            assert (shown["id"], shown["type"]) == (item["id"], item["type"])
        else:
            assert shown == item


def test_functions_of_a_namespace_are_offered_with_its_name_and_its_description_once() -> None:
    request = read(tools=[EXEC, AGENTS, namespace("bare", function("f"))])
    assert names(request) == ["exec_command", "agents_v1__close", "agents_v1__spawn", "bare__f"]
    texts = [tool.description for tool in request.request.tools]
    assert texts == ["Does exec_command.", "Does close.\n\nagents_v1: Other agents.", "Does spawn.", "Does f."]
    head = head_of(id="r", model="m", created=7, request=request.request, responses_request=request)
    assert head["tools"] == [EXEC, AGENTS, namespace("bare", function("f"))]


def test_every_event_of_a_namespaced_call_carries_the_namespace_beside_the_bare_name() -> None:
    request = read(tools=[TINY])
    events = encode(request, list(events_of(Reply.of(ToolCall.of("mcp__tiny__photo", "{}", id="c1")))))
    shown = [event["item"] for event in events if "item" in event] + events[-1]["response"]["output"]
    assert [(item["namespace"], item["name"]) for item in shown] == [("mcp__tiny", "photo")] * 3


TEXT = st.text("ab_-. é/", min_size=1, max_size=5) | st.text("ab_", min_size=40, max_size=70)


@given(groups=st.dictionaries(TEXT, st.lists(TEXT, min_size=1, max_size=4, unique=True), max_size=4), data=st.data())
def test_whatever_the_names_are_no_two_tools_share_one_and_each_call_comes_back_under_its_own(
    groups: dict[str, list[str]], data: st.DataObject
) -> None:
    plain = data.draw(st.lists(st.sampled_from(["a", "a__a", "a__b", "tool_search", "b_"]), unique=True))
    tools = [namespace(group, *map(function, inner)) for group, inner in groups.items()]
    tools = data.draw(st.permutations([*tools, *map(function, plain), SEARCH]))
    request = read(tools=tools)
    assert len(set(names(request))) == sum(map(len, groups.values())) + len(plain) + 1
    assert set(plain) <= set(names(request))
    assert all(is_tool_name(name) for name in names(request))
    wanted = {(group, name) for group, inner in groups.items() for name in inner} | {("", name) for name in plain}
    calls = [ToolCall.of(name, "{}", id=name) for name in names(request)]
    items = answered(request, *calls)
    assert {(one.get("namespace", ""), one["name"]) for one in items if one["type"] == "function_call"} == wanted
    # In the history they are the same calls again, whatever the order of the tools is then.
    again = read(*items, tools=tools)
    assert [one.name for message in again.request.messages for one in message.tool_calls] == names(request)


def test_a_tool_has_the_same_name_whatever_other_tools_are_offered() -> None:
    long = namespace("n" * 50, function("f" * 50))
    assert names(read(tools=[long])) == names(read(tools=[TINY, long]))[2:]
    assert len(names(read(tools=[long]))[0]) <= 64


def test_a_call_of_a_tool_that_is_not_offered_any_more_keeps_its_name() -> None:
    request = read(*NESTED_CALLS, call("c3", "gone", "{}"), tools=[EXEC])
    calls = [one.name for message in request.request.messages for one in message.tool_calls]
    assert calls == ["mcp__tiny__total", "mcp__tiny__photo", "gone"]


def test_a_custom_call_is_shown_as_its_text_in_events_that_come_only_when_it_is_whole() -> None:
    request = read(tools=[custom("apply_patch")])
    (tool,) = request.request.tools
    assert (tool.is_custom, tool.input_grammar) == (True, TextGrammar("lark", PATCH_GRAMMAR))
    written = ToolCall("c1", name="apply_patch", arguments=dumps({"input": PATCH}), receipt=RECEIPT)
    events = encode(request, list(events_of(Reply.of(written))))
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds[2:] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "completed",
    ]
    assert (events[2]["item"]["input"], events[3]["delta"], events[4]["input"]) == ("", PATCH, PATCH)
    item = events[5]["item"]
    assert (item["type"], item["name"], item["input"], item["status"]) == (
        "custom_tool_call",
        "apply_patch",
        PATCH,
        "completed",
    )
    assert events[5]["ferrule"]["receipts"]["c1"]["how"] == "grammar"


@pytest.mark.parametrize("name", ["apply_patch", "tool_search", "exec_command"])
def test_nothing_is_shown_of_a_call_that_was_cut_off(name: str) -> None:
    request = read(tools=[custom("apply_patch"), SEARCH, EXEC])
    whole = list(events_of(Reply.of(ToolCall.of(name, '{"input": "begin", "query": "x", "cmd": "x"}', id="c1"))))
    for length in range(1, len(whole) - 2):
        events = encode(request, whole[:length])
        assert events[-1]["response"]["output"] == []
        assert not [event for event in events if "item" in event]


@pytest.mark.parametrize("name", ["apply_patch", "tool_search"])
def test_arguments_that_are_not_what_the_tool_takes_are_no_item(name: str) -> None:
    request = read(tools=[custom("apply_patch"), SEARCH])
    response = encode(request, list(events_of(Reply.of(ToolCall.of(name, '["x"]', id="c1")))))[-1]["response"]
    assert response["output"] == []
    assert response["ferrule"]["incomplete"]["c1"]["arguments"] == '["x"]'


def test_a_custom_item_that_another_process_finds_open_ends_without_any_input() -> None:
    request = read(tools=[custom("apply_patch")])
    events = encode(request, list(events_of(Reply.of(ToolCall.of("apply_patch", dumps({"input": PATCH}), id="c1")))))
    for length in (3, 4, 5):
        encoder = HostedEncoder.restore(through_json(events[:length]), {}, request.client_tools)
        ended = encoder.stop_early()[-1]["response"]["output"]
        assert [(item["status"], item["input"]) for item in ended] == [("incomplete", "")]


def test_a_search_is_shown_with_its_arguments_as_an_object_and_its_tools_count_from_then_on() -> None:
    before = read(tools=[EXEC, SEARCH])
    (item,) = answered(before, ToolCall.of("tool_search", '{"query": "adds", "limit": 5}', id="c1"))
    assert {key: value for key, value in item.items() if key != "id"} == {
        key: value for key, value in SEARCH_CALL[0].items() if key != "id"
    }
    after = read(item, SEARCH_CALL[1], tools=[EXEC, SEARCH])
    assert names(before) == ["exec_command", "tool_search"]
    assert names(after) == ["exec_command", "tool_search", "mcp__tiny__total"]
    assert after.loaded_tools == ("mcp__tiny__total",)
    assert after.request.messages[-2].tool_calls == (ToolCall.of("tool_search", '{"query": "adds", "limit": 5}', "c1"),)
    (result,) = after.request.messages[-1].results
    assert (result.name, "mcp__tiny__total" in result.text) == ("tool_search", True)
    # Found again, it is offered once.
    assert names(read(*SEARCH_CALL, *SEARCH_CALL, tools=[SEARCH])) == ["tool_search", "mcp__tiny__total"]


def test_deferred_tools_are_offered_when_they_are_found_and_at_once_if_nobody_can_search() -> None:
    later = function("later", defer_loading=True)
    assert names(read(tools=[later, SEARCH])) == ["tool_search"]
    found = {**SEARCH_CALL[1], "tools": [later]}
    assert names(read(SEARCH_CALL[0], found, tools=[later, SEARCH])) == ["tool_search", "later"]
    assert names(read(tools=[later])) == ["later"]
    alone = read(tools=[function("now"), {"type": "tool_search"}])
    assert (names(alone), dict(alone.left_out), alone.request.tool_search) == (
        ["now"],
        {"tools[1]": "tool_search"},
        None,
    )


def test_the_servers_search_is_for_the_deferred_functions_of_the_body_and_of_its_namespaces() -> None:
    crm = {**namespace("crm", function("list"), function("add", defer_loading=True)), "description": "Customers."}
    request = read(tools=[function("later", defer_loading=True), crm, function("now"), {"type": "tool_search"}]).request
    assert [tool.name for tool in request.tools] == ["later", "crm__list", "crm__add", "now"]
    search = request.tool_search
    assert search is not None
    assert search.deferred == {"later", "crm__add"}
    assert (search.namespaces, search.names) == ({"crm__add": "crm"}, {"crm__add": "add"})
    assert search.descriptions == {"crm": "Customers."}
    assert not request.ignored


def test_a_search_of_the_server_in_the_history_stands_where_it_was_made() -> None:
    later, tools = function("later", defer_loading=True), [function("now"), {"type": "tool_search"}]
    call = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": None,
        "execution": "server",
        "arguments": {"query": "x"},
    }
    output = {"type": "tool_search_output", "id": "tso_1", "call_id": None, "execution": "server"}
    used = {"type": "function_call", "call_id": "c1", "name": "later", "namespace": "later", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "1"}
    items = [call, {**output, "tools": [later, function("gone", defer_loading=True)]}, used, result]
    read_request = read(*items, tools=[later, *tools])
    search, found, made, _ = read_request.request.messages[-4:]
    assert [(one.name, one.type, one.arguments) for one in search.tool_calls] == [
        ("tool_search", TOOL_SEARCH, {"query": "x"})
    ]
    assert found_names(found.results[0].text) == ("later",)
    assert [one.name for one in made.tool_calls] == ["later"]
    # What the request no longer declares is offered, because it was found.
    assert names(read_request) == ["later", "now", "gone"]
    assert read_request.request.tool_search is not None
    assert read_request.request.tool_search.deferred == {"later"}


def test_a_search_that_another_service_ran_only_brings_its_tools() -> None:
    items = [{**item, "call_id": None, "execution": "server"} for item in SEARCH_CALL]
    request = read(*items, tools=[EXEC])
    assert names(request) == ["exec_command", "mcp__tiny__total"]
    assert [message.role for message in request.request.messages] == [Role.SYSTEM, Role.SYSTEM, Role.USER]


def test_tools_of_an_input_item_are_offered_and_may_replace_earlier_ones_in_their_place() -> None:
    newer = {**ADDITIONAL, "tools": [namespace("functions", {**function("wait", "cell_id"), "description": "New."})]}
    request = read(ADDITIONAL, newer, *CUSTOM_CALL)
    assert names(request) == ["functions__exec", "functions__wait", "clock__sleep", "collaboration__send"]
    assert request.request.tools[1].description == "New."
    (made,) = request.request.messages[-2].tool_calls
    assert (made.name, made.arguments) == ("functions__exec", {"input": "run it"})
    assert request.request.messages[-1].results == (ToolResult("c1", "functions__exec", "Took 0.1 seconds\n3"),)


def test_tools_of_openais_service_are_not_offered_and_named() -> None:
    dated = {"type": "web_search_preview_2025_03_11"}
    request = read(tools=[WEB, EXEC, dated, {"type": "image_generation"}, {"type": "local_shell"}])
    assert names(request) == ["exec_command"]
    assert list(request.left_out.items()) == [
        ("tools[0]", "web_search"),
        ("tools[2]", "web_search_preview_2025_03_11"),
        ("tools[3]", "image_generation"),
        ("tools[4]", "local_shell"),
    ]


@pytest.mark.parametrize("name", REQUESTS)
def test_of_what_codex_sends_only_what_has_no_effect_is_reported(name: str) -> None:
    wanted = {
        "unknown": {"tools[]=web_search"},
        "known": {"tools[]=web_search", "reasoning.effort", "text.verbosity"},
        "code": {"reasoning.effort", "reasoning.context"},
    }
    assert set(read_responses_request(REQUESTS[name]).request.ignored) == wanted[name.split(maxsplit=1)[0]]


def test_what_a_tool_asks_for_in_vain_is_reported_and_its_restrictions_are_refused() -> None:
    deferred = function("f", defer_loading=True, output_schema={"type": "object"})
    inside = read(tools=[namespace("a", dict(deferred)), deferred, WEB])
    fields = ("defer_loading", "output_schema")
    assert set(inside.request.ignored) == {
        *(f"tools[].tools[].{field}" for field in fields),
        *(f"tools[].{field}" for field in fields),
        "tools[]=web_search",
    }
    restricted = {**custom("c"), "allowed_callers": ["programmatic"]}
    for tool in (restricted, namespace("a", restricted)):
        with pytest.raises(DefinitionError, match="allowed_callers"):
            read(tools=[tool])
        with pytest.raises(DefinitionError, match="allowed_callers"):
            read({**ADDITIONAL, "tools": [tool]})


ALL = [EXEC, TINY, namespace("other", function("photo")), custom("apply_patch"), SEARCH, WEB]
CHOICES: list[tuple[Any, list[str]]] = [
    ({"type": "function", "name": "exec_command"}, ["exec_command"]),
    ({"type": "function", "name": "total", "namespace": "mcp__tiny"}, ["mcp__tiny__total"]),
    ({"type": "function", "name": "total"}, ["mcp__tiny__total"]),
    ({"type": "function", "name": "mcp__tiny__total"}, ["mcp__tiny__total"]),
    ({"type": "function", "name": "photo", "namespace": "other"}, ["other__photo"]),
    ({"type": "namespace", "name": "mcp__tiny"}, ["mcp__tiny__total", "mcp__tiny__photo"]),
    ({"type": "custom", "name": "apply_patch"}, ["apply_patch"]),
    ({"type": "tool_search"}, ["tool_search"]),
]


@pytest.mark.parametrize("choice, chosen", CHOICES, ids=[f"{choice}" for choice, _ in CHOICES])
def test_every_kind_of_tool_can_be_chosen_alone_and_among_allowed_ones(choice: Any, chosen: list[str]) -> None:
    read_choice = read(tools=ALL, tool_choice=choice).request.tool_choice
    assert (read_choice.mode, list(read_choice.names or ())) == (ChoiceMode.REQUIRED, chosen)
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [choice, {"type": "function", "name": "exec_command"}]}
    read_choice = read(tools=ALL, tool_choice=allowed).request.tool_choice
    assert list(read_choice.names or ()) == list(dict.fromkeys([*chosen, "exec_command"]))


def test_a_tool_that_an_input_item_brings_can_be_chosen() -> None:
    choice = {"type": "custom", "name": "exec"}
    assert read(ADDITIONAL, tool_choice=choice).request.tool_choice.names == ("functions__exec",)


@pytest.mark.parametrize(
    "fields, path, words",
    [
        ({"tool_choice": {"type": "web_search"}}, "tool_choice.type", "'web_search'"),
        ({"tool_choice": {"type": "image_generation"}}, "tool_choice.type", "'image_generation'"),
        (
            {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "web_search"}]}},
            "tool_choice.tools[0].type",
            "'web_search'",
        ),
        ({"tool_choice": {"type": "function", "name": "photo"}}, "tool_choice.name", "ambiguous"),
        ({"tool_choice": {"type": "function", "name": "none"}}, "tool_choice", "none"),
        ({"tool_choice": {"type": "custom", "name": "exec_command"}}, "tool_choice.type", "custom"),
        ({"tool_choice": {"type": "namespace", "name": "x"}}, "tool_choice.name", "not a namespace"),
        ({"tools": [TINY, TINY]}, "tools[1].tools[0]", "duplicate"),
        ({"tools": [namespace("a", {"type": "mcp"})]}, "tools[0].tools[0].type", "'mcp'"),
        ({"tools": [namespace("a", SEARCH)]}, "tools[0].tools[0].type", "'tool_search'"),
        ({"tools": [{"type": "shell"}]}, "tools[0].type", "'shell'"),
        ({"tools": [custom("a", "xml")]}, "tools[0].format.syntax", "'xml'"),
        ({"tools": [custom("a", definition=" ")]}, "tools[0].format.definition", "empty"),
        ({"tools": [{"type": "custom", "name": "a", "format": {"type": "json"}}]}, "tools[0].format.type", "'json'"),
        ({"tools": [{**SEARCH, "execution": "us"}]}, "tools[0].execution", "'us'"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_path(fields: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        read(**{"tools": ALL, **fields})
    assert refused.value.message.startswith(f"{path}: ")
    assert words in refused.value.message


def test_a_tool_found_by_a_search_may_not_have_the_name_of_one_of_the_gateways() -> None:
    photo = read(tools=[function("photo")]).request.tools[0]
    hosts = {"sky": (HostedTool(photo, "sky"),)}
    tools = [SEARCH, {"type": "mcp", "server_label": "sky", "require_approval": "never"}]
    found = {**SEARCH_CALL[1], "tools": [function("photo")]}
    with pytest.raises(DefinitionError, match=r"input\[1\]\.tools: 'photo'"):
        read_responses_request({"input": [SEARCH_CALL[0], found], "tools": tools}, hosts)


def test_a_server_that_keeps_only_the_request_refuses_what_it_could_not_answer() -> None:
    for tool in (TINY, custom("a"), SEARCH, WEB):
        with pytest.raises(DefinitionError, match="not supported"):
            read_request({"input": "x", "tools": [EXEC, tool]})


def test_reasoning_that_only_its_service_can_read_changes_nothing() -> None:
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "c2VhbGVk"}
    spoken = call("c1", "exec_command", "{}")
    with_it = read(sealed, spoken, output("c1", "ok"), sealed, tools=[EXEC])
    assert with_it.request == read(spoken, output("c1", "ok"), tools=[EXEC]).request
    assert KNOWN_MODEL["include"] == ["reasoning.encrypted_content"]
    assert FOUND["name"] == TINY["name"]
