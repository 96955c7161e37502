"""An answer of several rounds in which the gateway runs tools, as the events of one response."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dialects.openai_responses.hosted_rounds import (
    GET,
    HEAD,
    HOSTED,
    WEATHER,
    Script,
    check_events,
    encoder,
    scripts,
)
from dialects.replies import is_object, through_json
from ferrule import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Finish, FinishReason, TextDelta, ToolCall, Usage
from ferrule.core.call import How, Receipt, ToolResult
from ferrule.dialects.caller_error import caller_error
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.snapshot import Snapshot, merge_extensions
from ferrule.errors import EngineError, EngineUnavailableError, FerruleError, TooManyError

RECEIPT = Receipt(how=How.GRAMMAR, engine="llama", path="completion")
CALL = ToolCall.of(WEATHER.name, '{"city": "Rome"}', id="c1")
WAITING = ToolCall.of(GET.name, '{"key": "x"}', id="c2")


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def fed(encoder: HostedEncoder, *calls: ToolCall, usage: Usage | None = None) -> list[dict[str, Any]]:
    """A round of nothing but calls."""
    events: list[dict[str, Any]] = []
    for index, call in enumerate(calls):
        events += encoder.feed(CallStart(index, call.id, call.name))
        events += encoder.feed(ArgumentsDelta(index, call.function.arguments))
        events += encoder.feed(CallEnd(index, receipt=RECEIPT))
    return events + encoder.feed(Finish(FinishReason.TOOL_CALLS, usage))


@given(scripts())
def test_every_item_is_begun_and_ended_once_and_the_last_event_has_them_all(script: Script) -> None:
    encoder_under_test = encoder()
    events = script.encode_all(encoder_under_test) + encoder_under_test.finish(waits=script.waits)
    items = check_events(through_json(events)).values()
    assert encoder_under_test.is_over
    texts = [item["content"][0]["text"] for item in items if item["type"] == "message"]
    assert "".join(texts) == "".join(reply.text for reply in script.replies)
    hosted = [item for item in items if item["type"] == "mcp_call" and item["status"] in ("completed", "failed")]
    assert len(hosted) == len(script.ran)
    assert sorted(item["arguments"] for item in hosted) == sorted(call.function.arguments for call in script.started)
    pending = {item["id"]: item["arguments"] for item in items if item["type"] == "mcp_approval_request"}
    assert pending == {id: call.function.arguments for id, call in script.pending.items()}


@given(scripts())
def test_the_fold_of_the_events_is_the_response(script: Script) -> None:
    encoder_under_test = encoder()
    events: list[dict[str, Any]] = []
    for step in script.steps:
        events += step(encoder_under_test)
        assert Snapshot.of(through_json(events)).response() == through_json(encoder_under_test.response)
    events += encoder_under_test.finish(waits=script.waits)
    assert encoder_under_test.response == events[-1]["response"]


@given(scripts())
def test_tokens_are_summed_over_the_rounds(script: Script) -> None:
    encoder_under_test = encoder()
    script.encode_all(encoder_under_test)
    used = [reply.usage for reply in script.replies if reply.usage]
    total = encoder_under_test.finish()[-1]["response"]["usage"]
    assert total["input_tokens"] == sum(usage.prompt_tokens for usage in used)
    assert total["output_tokens"] == sum(usage.completion_tokens for usage in used)


@given(scripts())
def test_what_has_no_field_is_in_the_extension_of_the_last_event(script: Script) -> None:
    encoder_under_test = encoder()
    script.encode_all(encoder_under_test)
    events = encoder_under_test.finish(waits=script.waits)[-1]["response"].get("ferrule", {})
    notes = [note.code for reply in script.replies for note in reply.diagnostics]
    assert [note["code"] for note in events.get("diagnostics", [])] == notes
    cut = {call.id for reply in script.replies for call in reply.incomplete}
    assert events.get("incomplete", {}).keys() == cut
    started_ids = {call.id for call in script.started}
    ids_with_receipt = {
        call.id for reply in script.replies for call in reply.calls if call.receipt and call.id in started_ids
    }
    assert ids_with_receipt <= events.get("receipts", {}).keys()


@given(scripts())
def test_no_arguments_can_be_read_out_of_a_clients_call_that_must_not_be_run(script: Script) -> None:
    encoder_under_test = encoder()
    script.encode_all(encoder_under_test)
    output = encoder_under_test.finish()[-1]["response"]["output"]
    whole = {item["call_id"] for item in output if item["type"] == "function_call" and is_object(item["arguments"])}
    assert whole == {call.id for reply in script.replies for call in reply.calls if call.name not in HOSTED}


def test_a_hosted_call_has_a_life_of_its_own() -> None:
    encoder_under_test = encoder()
    events = encoder_under_test.begin() + fed(encoder_under_test, CALL)
    events += (
        encoder_under_test.start_tool(CALL)
        + encoder_under_test.finish_tool(ToolResult("c1", CALL.name, "sunny"))
        + encoder_under_test.finish()
    )
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.in_progress",
        "mcp_call.completed",
        "output_item.done",
        "completed",
    ]
    item = events[-1]["response"]["output"][0]
    assert (item["server_label"], item["name"], item["output"]) == ("sky", WEATHER.name, "sunny")
    assert events[-1]["response"]["ferrule"]["receipts"] == {"c1": RECEIPT.as_dict()}


def test_a_tool_that_fails_fails_its_item_and_not_the_response() -> None:
    encoder_under_test = encoder()
    fed(encoder_under_test, CALL)
    encoder_under_test.start_tool(CALL)
    events = (
        encoder_under_test.finish_tool(ToolResult("c1", CALL.name, "no such city", is_error=True))
        + encoder_under_test.finish()
    )
    assert kinds(events) == ["mcp_call.failed", "output_item.done", "completed"]
    item = events[1]["item"]
    content = [{"type": "text", "text": "no such city"}]
    assert (item["status"], item["output"]) == ("failed", None)
    assert item["error"] == {"type": "mcp_tool_execution_error", "content": content}


def test_tools_that_run_side_by_side_end_in_any_order_and_keep_their_places() -> None:
    other = ToolCall.of(WEATHER.name, '{"city": "Oslo"}', id="c9")
    encoder_under_test = encoder()
    fed(encoder_under_test, CALL, other)
    encoder_under_test.start_tool(CALL)
    encoder_under_test.start_tool(other)
    events = encoder_under_test.finish_tool(ToolResult("c9", other.name, "snow")) + encoder_under_test.finish_tool(
        ToolResult("c1", CALL.name, "sun")
    )
    assert [event["output_index"] for event in events] == [1, 1, 0, 0]
    assert [item["output"] for item in encoder_under_test.finish()[-1]["response"]["output"]] == ["sun", "snow"]


def test_duplicate_ids_of_hosted_calls_are_made_unique_as_in_the_loop() -> None:
    encoder_under_test = encoder()
    fed(encoder_under_test, CALL, CALL)
    for id in ("c1", "c2"):
        assert kinds(encoder_under_test.start_tool(ToolCall.of(CALL.name, "{}", id=id))) == ["mcp_call.in_progress"]
        encoder_under_test.finish_tool(ToolResult(id, CALL.name, id))
    assert [item["output"] for item in encoder_under_test.finish()[-1]["response"]["output"]] == ["c1", "c2"]


def test_a_waiting_call_is_only_an_approval_request_at_the_end_of_the_turn() -> None:
    encoder_under_test = encoder()
    events = (
        encoder_under_test.begin()
        + fed(encoder_under_test, WAITING)
        + encoder_under_test.request_approval(WAITING, "appr_1")
    )
    assert kinds(events) == ["created", "in_progress"]
    events = encoder_under_test.finish(waits=True)
    assert kinds(events) == ["output_item.added", "output_item.done", "completed"]
    request = {"id": "appr_1", "type": "mcp_approval_request", "server_label": "store", "name": "fetch"}
    assert events[-1]["response"]["output"] == [{**request, "arguments": '{"key": "x"}'}]


def test_after_approval_the_next_response_has_the_call_and_its_approval_request() -> None:
    encoder_under_test = encoder()
    events = encoder_under_test.begin() + encoder_under_test.start_tool(WAITING, "appr_1")
    events += encoder_under_test.finish_tool(ToolResult("c2", GET.name, "1")) + encoder_under_test.finish()
    assert kinds(events)[2:5] == ["output_item.added", "mcp_call_arguments.delta", "mcp_call_arguments.done"]
    item = events[-1]["response"]["output"][0]
    assert (item["approval_request_id"], item["name"], item["arguments"]) == ("appr_1", "fetch", '{"key": "x"}')


def test_a_call_approved_within_the_turn_has_no_approval_request() -> None:
    encoder_under_test = encoder()
    fed(encoder_under_test, WAITING)
    encoder_under_test.request_approval(WAITING, "appr_1")
    encoder_under_test.start_tool(WAITING)
    encoder_under_test.finish_tool(ToolResult("c2", GET.name, "1"))
    output = encoder_under_test.finish(waits=True)[-1]["response"]["output"]
    assert [(item["type"], item["approval_request_id"]) for item in output] == [("mcp_call", None)]


def test_only_the_pending_one_of_two_waiting_calls_has_an_approval_request() -> None:
    other = ToolCall.of(GET.name, "{}", id="c3")
    encoder_under_test = encoder()
    fed(encoder_under_test, WAITING, other)
    encoder_under_test.request_approval(WAITING, "appr_1")
    encoder_under_test.request_approval(other, "appr_2")
    encoder_under_test.drop_approval("c2")
    assert [item["id"] for item in encoder_under_test.finish(waits=True)[-1]["response"]["output"]] == ["appr_2"]


def test_a_call_of_an_earlier_round_has_no_approval_request() -> None:
    encoder_under_test = encoder()
    fed(encoder_under_test, WAITING)
    encoder_under_test.request_approval(WAITING, "appr_1")
    encoder_under_test.feed(TextDelta("Then not."))
    assert [item["type"] for item in encoder_under_test.finish(waits=True)[-1]["response"]["output"]] == ["message"]


def test_a_call_that_never_ran_is_incomplete_when_the_next_round_starts() -> None:
    encoder_under_test = encoder()
    fed(encoder_under_test, CALL)
    events = encoder_under_test.feed(TextDelta("Well"))
    assert kinds(events)[:2] == ["output_item.done", "output_item.added"]
    assert events[0]["item"]["status"] == "incomplete"
    assert encoder_under_test.start_tool(CALL)[0]["output_index"] == 2


def test_the_tools_of_a_declared_server_are_listed_or_an_error_is_sent() -> None:
    encoder_under_test = encoder()
    events = encoder_under_test.list_tools("sky", [HOSTED[WEATHER.name]]) + encoder_under_test.list_tools(
        "sea", [], error="gone"
    )
    steps = ["output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done"]
    failed = [*steps[:2], "mcp_list_tools.failed", steps[3]]
    assert kinds(events) == ["created", "in_progress", *steps, *failed]
    known_item, missing = encoder_under_test.finish()[-1]["response"]["output"]
    assert [(tool["name"], tool["input_schema"]) for tool in known_item["tools"]] == [
        (WEATHER.name, WEATHER.parameters)
    ]
    assert known_item["tools"][0]["annotations"] == {"readOnlyHint": True}
    assert (missing["tools"], missing["error"]) == ([], "gone")


def test_progress_rides_beside_a_step_that_clients_know() -> None:
    encoder_under_test = encoder()
    fed(encoder_under_test, CALL)
    encoder_under_test.start_tool(CALL)
    (events,) = encoder_under_test.report_progress("c1", {"done": 1})
    assert (events["type"], events["ferrule"]) == ("response.mcp_call.in_progress", {"progress": {"done": 1}})
    assert not encoder_under_test.report_progress("c7", {"done": 1})


def test_a_result_of_an_unannounced_call_has_no_item() -> None:
    assert not encoder().finish_tool(ToolResult("c7", "x", "1"))


def test_a_removed_tool_still_has_a_label() -> None:
    encoder_under_test = encoder()
    encoder_under_test.start_tool(ToolCall.of("gone", "{}", id="c7"))
    item = encoder_under_test.response["output"][0]
    assert (item["server_label"], item["name"]) == ("ferrule", "gone")


def test_what_a_round_came_to_rides_on_the_next_event_so_that_a_crash_does_not_lose_it() -> None:
    encoder_under_test = encoder()
    encoder_under_test.feed(Diagnostic("odd", "something"))
    fed(encoder_under_test, CALL, usage=Usage(3, 4))
    events = encoder_under_test.start_tool(CALL)[0]["ferrule"]
    assert events["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "cached_tokens": 0}
    assert [note["code"] for note in events["diagnostics"]] == ["odd"]


def test_the_usage_of_events_that_an_earlier_version_wrote_is_added() -> None:
    before = {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    after = {"usage": {"prompt_tokens": 10, "completion_tokens": 1, "cached_tokens": 8}}
    assert merge_extensions(before, after) == {
        "usage": {"prompt_tokens": 13, "completion_tokens": 5, "cached_tokens": 8}
    }


def test_two_silent_rounds_are_both_counted() -> None:
    encoder_under_test = encoder()
    for _ in range(2):
        encoder_under_test.feed(Finish(FinishReason.STOP, Usage(3, 4)))
    assert encoder_under_test.finish()[-1]["response"]["usage"]["total_tokens"] == 14


def test_a_background_response_is_queued_before_it_begins() -> None:
    encoder_under_test = encoder()
    events = encoder_under_test.queue()
    assert encoder_under_test.response["status"] == "queued"
    assert not encoder_under_test.queue()
    events += encoder_under_test.feed(TextDelta("Hi")) + encoder_under_test.finish()
    assert kinds(events)[:3] == ["created", "queued", "in_progress"]
    check_events(events)


def end_response(how: str, error: FerruleError | None = None) -> dict[str, Any]:
    encoder_under_test = encoder()
    events = encoder_under_test.feed(TextDelta("Hel")) + encoder_under_test.feed(CallStart(0, "c1", CALL.name))
    events += encoder_under_test.fail(error) if error else getattr(encoder_under_test, how)()
    items = check_events(events)
    # The call was not begun, because it did not end.
    assert [(item["type"], item["status"]) for item in items.values()] == [("message", "incomplete")]
    assert not encoder_under_test.feed(TextDelta("x"))
    assert (
        not encoder_under_test.finish()
        + encoder_under_test.cancel()
        + encoder_under_test.stop_early()
        + encoder_under_test.fail(EngineError("x"))
        + encoder_under_test.close()
    )
    assert (
        not encoder_under_test.start_tool(CALL)
        + encoder_under_test.request_approval(CALL)
        + encoder_under_test.list_tools("sky", [])
    )
    return events[-1]


def test_a_cancelled_response_ends_as_incomplete_and_says_cancelled() -> None:
    last = end_response("cancel")
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")


def test_a_response_can_end_before_its_time() -> None:
    last = end_response("stop_early")
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["incomplete_details"] == {"reason": None}


@pytest.mark.parametrize(
    "error, code, retryable",
    [
        (EngineError("broke", hint="Mend it."), "server_error", False),
        (EngineUnavailableError("gone"), "server_error", True),
        (TooManyError("slowly"), "rate_limit_exceeded", True),
    ],
)
def test_an_error_ends_the_response_with_the_apis_error_code(error: FerruleError, code: str, retryable: bool) -> None:
    last = end_response("fail", error)
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["code"] == code
    assert last["response"]["error"]["message"] == caller_error(error).text
    assert last["response"]["ferrule"]["error"] == {"code": error.code, "retryable": retryable}


def test_an_answer_that_was_cut_off_is_incomplete_and_one_that_waits_is_not() -> None:
    for waits, kind in ((False, "response.incomplete"), (True, "response.completed")):
        encoder_under_test = HostedEncoder(HEAD)
        encoder_under_test.feed(TextDelta("Hel"))
        encoder_under_test.feed(Finish(FinishReason.LENGTH))
        assert encoder_under_test.finish(waits=waits)[-1]["type"] == kind


def test_text_that_nobody_ended_is_complete_when_the_answer_is() -> None:
    encoder_under_test = encoder()
    encoder_under_test.feed(TextDelta("Hi"))
    assert encoder_under_test.finish()[-1]["response"]["output"][0]["status"] == "completed"
