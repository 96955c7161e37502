"""OpenAI's own client reads all events: each is validated strictly by the client's types, and so is their sum.

Also which events the client needs, by leaving out one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialects.openai_responses.codex_requests import REQUESTS
from dialects.openai_responses.hosted_rounds import GET, HEAD, HOSTED, PING, WEATHER, Script, encoder, scripts
from dialects.replies import through_json
from ferrule import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Finish,
    FinishReason,
    Reply,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from ferrule.core.event import ReasoningDelta
from ferrule.core.json_text import dumps
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.output_items import failure_of
from ferrule.dialects.openai_responses.request_decoder import read_responses_request
from ferrule.dialects.openai_responses.response_body import head_of
from ferrule.dialects.openai_responses.stored_response import error_event, input_items, input_items_body, response_body
from ferrule.engines.fake import events_of
from ferrule.errors import TooManyError
from lab.workers import Worker, clients

pytestmark = pytest.mark.oracle
many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
Events = list[dict[str, Any]]

HOSTS = {"sky": (HOSTED[WEATHER.name],), "store": (HOSTED[GET.name],)}
ROME = ToolCall.of(WEATHER.name, '{"city": "Rome"}', id="c1")
FETCH = ToolCall.of(GET.name, '{"key": "x"}', id="c2")
STORE = {"type": "mcp", "server_label": "store"}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with clients() as started:
        yield started


def ask_worker(worker: Worker, op: str, argument: Any) -> dict[str, Any]:
    answer = worker.ask({"op": op, "given": argument})
    assert answer["error"] is None, answer["error"]
    return answer


def assert_summed(worker: Worker, events: Events) -> dict[str, Any]:
    """The client comes to the same response as the last event tells."""
    last = events[-1]["response"]
    answer = ask_worker(worker, "response_stream", events)
    assert answer["finish"] == last["status"]
    assert answer["items"] == [[item["type"], item["id"], item.get("status")] for item in last["output"]]
    used = last["usage"]
    assert answer["usage"] == (used and [used["input_tokens"], used["output_tokens"]])
    return answer


@many
@given(script=scripts())
def test_the_client_takes_every_event_and_sums_them_to_the_response(worker: Worker, script: Script) -> None:
    telling = encoder()
    events = script.encode_all(telling) + telling.finish(waits=script.waits)
    answer = assert_summed(worker, events)
    assert answer["text"] == "".join(reply.text for reply in script.replies)


@many
@given(first=scripts(), second=scripts(prefix="b"), data=st.data())
def test_the_client_does_not_see_that_a_process_died(
    worker: Worker, first: Script, second: Script, data: st.DataObject
) -> None:
    telling = encoder()
    events = telling.queue() + first.encode_all(telling) + telling.finish(waits=first.waits)
    before = events[: data.draw(st.integers(1, len(events) - 1))]
    again = HostedEncoder.restore(through_json(before), HOSTED)
    after = second.encode_all(again) + again.finish(waits=second.waits)
    assert_summed(worker, before + after)


@many
@given(script=scripts(), data=st.data())
def test_a_stored_response_is_one_in_every_state(worker: Worker, script: Script, data: st.DataObject) -> None:
    telling = encoder()
    events = telling.queue() + script.encode_all(telling) + telling.finish(waits=script.waits)
    prefix = events[: data.draw(st.integers(1, len(events)))]
    body = through_json(response_body(prefix))
    answer = ask_worker(worker, "response_body", body)
    assert (answer["finish"], len(answer["items"])) == (body["status"], len(body["output"]))


@pytest.mark.parametrize("end", ["cancel", "stop_early", "fail"])
def test_the_client_takes_every_way_to_end(worker: Worker, end: str) -> None:
    telling = encoder()
    events = telling.list_tools("sky", [HOSTED[WEATHER.name]]) + telling.list_tools("sea", [], error="gone")
    events += telling.feed(TextDelta("Hel")) + telling.start_tool(ROME)
    events += telling.fail(TooManyError("slowly")) if end == "fail" else getattr(telling, end)()
    assert_summed(worker, events)
    ask_worker(worker, "response_body", events[-1]["response"])


def test_an_error_beside_the_response_is_yielded(worker: Worker) -> None:
    telling = encoder()
    events = telling.begin()
    events.append(error_event(TooManyError("slowly"), len(events)))
    ask_worker(worker, "response_events", events)
    assert ask_worker(worker, "response_raw_stream", events)["kinds"][-1] == "error"


def test_the_clients_fields_are_echoed_in_its_own_types(worker: Worker) -> None:
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    filters = {"always": {"tool_names": ["fetch"]}, "never": {"read_only": False}}
    ask = read_responses_request(
        {
            "input": "x",
            "instructions": "Help.",
            "previous_response_id": "resp_0",
            "background": True,
            "max_tool_calls": 3,
            "max_output_tokens": 9,
            "metadata": {"a": "b"},
            "text": {"format": schema},
            "tools": [
                {"type": "function", "name": "mine"},
                {"type": "mcp", "server_label": "sky", "allowed_tools": [WEATHER.name], "require_approval": "never"},
                {**STORE, "allowed_tools": {"tool_names": ["fetch"]}, "require_approval": filters},
            ],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "sky"}]},
        },
        HOSTS,
    )
    telling = HostedEncoder(
        head_of(id="r", model="m", created=7, request=ask.request, responses_request=ask), ask.hosted_tools
    )
    assert_summed(worker, telling.queue() + telling.feed(TextDelta("Hi")) + telling.finish())


def test_what_went_into_a_response_is_listed_in_the_clients_types(worker: Worker) -> None:
    hosted = {"server_label": "store", "name": "fetch", "arguments": "{}"}
    items: Events = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]},
        {"type": "function_call", "call_id": "c", "name": "ping", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "pong"}]},
        {"type": "mcp_list_tools", "server_label": "store", "tools": [{"name": "fetch", "input_schema": {}}]},
        {"type": "mcp_call", "id": "mcp_1", **hosted, "output": "1"},
        {"type": "mcp_call", "id": "mcp_2", **hosted, "error": "broke"},
        {"type": "mcp_call", "id": "mcp_3", **hosted, "error": failure_of("broke")},
        {"type": "mcp_approval_request", "id": "appr_1", **hosted},
        {"type": "mcp_approval_response", "approval_request_id": "appr_1", "approve": False, "reason": "no"},
    ]
    read_responses_request({"input": items}, HOSTS)
    listed = input_items_body(input_items({"input": items}, "resp_1"), {"order": "asc"})
    answer = ask_worker(worker, "response_items", through_json(listed))
    assert [kind for kind, _ in answer["items"]] == [item.get("type", "message") for item in items]


def answer_with_everything() -> Events:
    telling = HostedEncoder(HEAD, HOSTED)
    events = telling.feed(ReasoningDelta("hm")) + telling.feed(TextDelta("Hel")) + telling.feed(TextDelta("lo"))
    events += telling.feed(CallStart(0, "f1", PING.name)) + telling.feed(ArgumentsDelta(0, "{}"))
    events += telling.feed(CallEnd(0)) + telling.feed(Finish(FinishReason.TOOL_CALLS, Usage(1, 2)))
    events += telling.start_tool(ROME) + telling.finish_tool(ToolResult("c1", ROME.name, "sun"))
    return through_json(events + telling.finish())


Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def without(*kinds: str) -> Change:
    return lambda event: None if event["type"].removeprefix("response.") in kinds else event


def without_numbers(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "sequence_number"}


def another_response(event: dict[str, Any]) -> dict[str, Any]:
    is_last = event["type"] == "response.completed"
    return {**event, "response": {**event["response"], "id": "resp_2"}} if is_last else event


def another_item(event: dict[str, Any]) -> dict[str, Any]:
    is_done = event["type"] == "response.output_item.done"
    return {**event, "item": {**event["item"], "id": "other"}} if is_done else event


OMISSIONS: list[tuple[str, Change, str | None]] = [
    ("nothing", lambda event: event, None),
    ("numbers", without_numbers, None),
    ("the response first", without("created"), "RuntimeError"),
    ("an item before its deltas", without("output_item.added"), "RuntimeError"),
    ("a part before its text", without("content_part.added"), "IndexError"),
    ("the end of arguments", without("function_call_arguments.done", "mcp_call_arguments.done"), None),
    ("the end of items", without("output_item.done"), None),
    ("the end", without("completed"), "RuntimeError"),
    ("one id for the response", another_response, "RuntimeError"),
    ("one id for an item", another_item, "RuntimeError"),
]


@pytest.mark.parametrize("change, raised", [row[1:] for row in OMISSIONS], ids=[row[0] for row in OMISSIONS])
def test_every_event_that_is_sent_is_needed_by_the_client(worker: Worker, change: Change, raised: str | None) -> None:
    events = [changed for event in answer_with_everything() if (changed := change(event)) is not None]
    assert len(ask_worker(worker, "response_raw_stream", events)["kinds"]) == len(events)
    error = worker.ask({"op": "response_summed", "given": events})["error"]
    assert (error is None) if raised is None else error.startswith(raised)


def test_the_names_of_events_may_be_lost_on_the_way(worker: Worker) -> None:
    named, unnamed = (
        ask_worker(worker, op, answer_with_everything()) for op in ("response_summed", "response_unnamed")
    )
    assert {**named, "seconds": 0} == {**unnamed, "seconds": 0}


def test_only_strict_types_miss_the_numbers(worker: Worker) -> None:
    events = [without_numbers(event) for event in answer_with_everything()]
    assert "sequence_number" in worker.ask({"op": "response_events", "given": events})["error"]


@pytest.mark.parametrize("name", REQUESTS)
def test_codexs_tools_and_items_are_in_the_clients_types(worker: Worker, name: str) -> None:
    body = REQUESTS[name]
    ask = read_responses_request(body)
    telling = HostedEncoder(
        head_of(id="r", model="m", created=7, request=ask.request, responses_request=ask), {}, ask.client_tools
    )
    written = {"x": "1", "y": "2", "input": "a", "query": "x"}
    calls = [ToolCall.of(tool.name, dumps(written), id=f"c{at}") for at, tool in enumerate(ask.request.tools)]
    events = [one for event in events_of(Reply.of("Hi", *calls)) for one in telling.feed(event)] + telling.finish()
    answer = assert_summed(worker, through_json(events))
    assert len(answer["items"]) == len(calls) + 1
    listed = input_items_body(input_items(body, "resp_1"), {"order": "asc"})
    kinds = ask_worker(worker, "response_items", through_json(listed))["items"]
    assert [kind for kind, _ in kinds] == [item["type"] for item in body["input"]]


@pytest.mark.parametrize("approve", [True, False])
def test_the_clients_own_loop_requests_approval_and_resumes(worker: Worker, approve: bool) -> None:
    first = HostedEncoder(HEAD, HOSTED)
    waiting = (
        first.list_tools("store", HOSTS["store"]) + first.request_approval(FETCH, "appr_1") + first.finish(waits=True)
    )
    second = HostedEncoder({**HEAD, "id": "resp_2"}, HOSTED)
    ran = second.start_tool(FETCH, "appr_1") + second.finish_tool(ToolResult("c2", GET.name, "1")) if approve else []
    ended = ran + second.feed(TextDelta("So")) + second.feed(Finish(FinishReason.STOP, Usage(1, 2))) + second.finish()
    argument = {"tools": [STORE], "answers": [waiting, ended], "approve": approve}
    answer = ask_worker(worker, "response_runner", through_json(argument))
    assert (answer["text"], answer["asked"]) == ("So", ["appr_1"])
    # What it sends the second time is read as the answer, and as nothing else that would be done.
    again = read_responses_request(answer["sent"][1], HOSTS)
    assert [(one.id, one.approve) for one in again.approvals] == [("appr_1", approve)]
