"""An answer in which the gateway runs tools itself, over several rounds, as the events of one response."""

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
    assert_well_told,
    encoder,
    scripts,
)
from dialects.replies import is_object, through_json
from ferrule import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Finish, FinishReason, TextDelta, ToolCall, Usage
from ferrule.core.call import ToolResult
from ferrule.core.receipt import How, Receipt
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.snapshot import Snapshot
from ferrule.errors import EngineError, EngineUnavailableError, FerruleError, TooManyError

RECEIPT = Receipt(how=How.GRAMMAR, engine="llama", path="completion")
CALL = ToolCall.of(WEATHER.name, '{"city": "Rome"}', id="c1")
WAITING = ToolCall.of(GET.name, '{"key": "x"}', id="c2")


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def fed(encoder: HostedEncoder, *calls: ToolCall, usage: Usage | None = None) -> list[dict[str, Any]]:
    """A round of nothing but calls."""
    told: list[dict[str, Any]] = []
    for index, call in enumerate(calls):
        told += encoder.feed(CallStart(index, call.id, call.name))
        told += encoder.feed(ArgumentsDelta(index, call.function.arguments))
        told += encoder.feed(CallEnd(index, receipt=RECEIPT))
    return told + encoder.feed(Finish(FinishReason.TOOL_CALLS, usage))


@given(scripts())
def test_every_item_is_begun_and_ended_once_and_the_last_event_has_them_all(script: Script) -> None:
    telling = encoder()
    events = script.told(telling) + telling.finish(waits=script.waits)
    items = assert_well_told(through_json(events)).values()
    assert telling.is_over
    said = [item["content"][0]["text"] for item in items if item["type"] == "message"]
    assert "".join(said) == "".join(reply.text for reply in script.replies)
    hosted = [item for item in items if item["type"] == "mcp_call" and item["status"] in ("completed", "failed")]
    assert len(hosted) == len(script.ran)
    assert sorted(item["arguments"] for item in hosted) == sorted(call.function.arguments for call in script.started)
    asked = {item["id"]: item["arguments"] for item in items if item["type"] == "mcp_approval_request"}
    assert asked == {id: call.function.arguments for id, call in script.asked.items()}


@given(scripts())
def test_the_fold_of_the_events_is_the_response(script: Script) -> None:
    telling = encoder()
    events: list[dict[str, Any]] = []
    for step in script.steps:
        events += step(telling)
        assert Snapshot.of(through_json(events)).response() == through_json(telling.response)
    events += telling.finish(waits=script.waits)
    assert telling.response == events[-1]["response"]


@given(scripts())
def test_tokens_are_summed_over_the_rounds(script: Script) -> None:
    telling = encoder()
    script.told(telling)
    used = [reply.usage for reply in script.replies if reply.usage]
    total = telling.finish()[-1]["response"]["usage"]
    assert total["input_tokens"] == sum(usage.prompt_tokens for usage in used)
    assert total["output_tokens"] == sum(usage.completion_tokens for usage in used)


@given(scripts())
def test_what_has_no_field_is_in_the_extension_of_the_last_event(script: Script) -> None:
    telling = encoder()
    script.told(telling)
    told = telling.finish(waits=script.waits)[-1]["response"].get("ferrule", {})
    notes = [note.code for reply in script.replies for note in reply.diagnostics]
    assert [note["code"] for note in told.get("diagnostics", [])] == notes
    cut = {call.id for reply in script.replies for call in reply.incomplete}
    assert told.get("incomplete", {}).keys() == cut
    shown = {call.id for call in script.started}
    known = {call.id for reply in script.replies for call in reply.calls if call.receipt and call.id in shown}
    assert known <= told.get("receipts", {}).keys()


@given(scripts())
def test_no_arguments_can_be_read_out_of_a_clients_call_that_must_not_be_run(script: Script) -> None:
    telling = encoder()
    script.told(telling)
    output = telling.finish()[-1]["response"]["output"]
    whole = {item["call_id"] for item in output if item["type"] == "function_call" and is_object(item["arguments"])}
    assert whole == {call.id for reply in script.replies for call in reply.calls if call.name not in HOSTED}


def test_a_hosted_call_has_a_life_of_its_own() -> None:
    telling = encoder()
    told = telling.begin() + fed(telling, CALL)
    told += telling.started(CALL) + telling.finished(ToolResult("c1", CALL.name, "sunny")) + telling.finish()
    assert kinds(told) == [
        "created",
        "in_progress",
        "output_item.added",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.in_progress",
        "mcp_call.completed",
        "output_item.done",
        "completed",
    ]
    item = told[-1]["response"]["output"][0]
    assert (item["server_label"], item["name"], item["output"]) == ("sky", WEATHER.name, "sunny")
    assert told[-1]["response"]["ferrule"]["receipts"] == {"c1": RECEIPT.as_dict()}


def test_a_tool_that_fails_fails_its_item_and_not_the_response() -> None:
    telling = encoder()
    fed(telling, CALL)
    telling.started(CALL)
    told = telling.finished(ToolResult("c1", CALL.name, "no such city", is_error=True)) + telling.finish()
    assert kinds(told) == ["mcp_call.failed", "output_item.done", "completed"]
    item = told[1]["item"]
    content = [{"type": "text", "text": "no such city"}]
    assert (item["status"], item["output"]) == ("failed", None)
    assert item["error"] == {"type": "mcp_tool_execution_error", "content": content}


def test_tools_that_run_side_by_side_end_in_any_order_and_keep_their_places() -> None:
    other = ToolCall.of(WEATHER.name, '{"city": "Oslo"}', id="c9")
    telling = encoder()
    fed(telling, CALL, other)
    telling.started(CALL)
    telling.started(other)
    told = telling.finished(ToolResult("c9", other.name, "snow")) + telling.finished(ToolResult("c1", CALL.name, "sun"))
    assert [event["output_index"] for event in told] == [1, 1, 0, 0]
    assert [item["output"] for item in telling.finish()[-1]["response"]["output"]] == ["sun", "snow"]


def test_two_hosted_calls_with_one_id_are_told_apart_as_the_loop_does() -> None:
    telling = encoder()
    fed(telling, CALL, CALL)
    for id in ("c1", "c2"):
        assert kinds(telling.started(ToolCall.of(CALL.name, "{}", id=id))) == ["mcp_call.in_progress"]
        telling.finished(ToolResult(id, CALL.name, id))
    assert [item["output"] for item in telling.finish()[-1]["response"]["output"]] == ["c1", "c2"]


def test_a_call_that_waits_is_told_only_as_a_request_for_leave_at_the_end_of_the_turn() -> None:
    telling = encoder()
    told = telling.begin() + fed(telling, WAITING) + telling.asked(WAITING, "appr_1")
    assert kinds(told) == ["created", "in_progress"]
    told = telling.finish(waits=True)
    assert kinds(told) == ["output_item.added", "output_item.done", "completed"]
    request = {"id": "appr_1", "type": "mcp_approval_request", "server_label": "store", "name": "fetch"}
    assert told[-1]["response"]["output"] == [{**request, "arguments": '{"key": "x"}'}]


def test_after_leave_the_next_response_tells_the_call_and_what_allowed_it() -> None:
    telling = encoder()
    told = telling.begin() + telling.started(WAITING, "appr_1")
    told += telling.finished(ToolResult("c2", GET.name, "1")) + telling.finish()
    assert kinds(told)[2:5] == ["output_item.added", "mcp_call_arguments.delta", "mcp_call_arguments.done"]
    item = told[-1]["response"]["output"][0]
    assert (item["approval_request_id"], item["name"], item["arguments"]) == ("appr_1", "fetch", '{"key": "x"}')


def test_a_call_that_was_allowed_within_the_turn_is_not_asked_for_in_the_response() -> None:
    telling = encoder()
    fed(telling, WAITING)
    telling.asked(WAITING, "appr_1")
    telling.started(WAITING)
    telling.finished(ToolResult("c2", GET.name, "1"))
    output = telling.finish(waits=True)[-1]["response"]["output"]
    assert [(item["type"], item["approval_request_id"]) for item in output] == [("mcp_call", None)]


def test_of_two_calls_that_waited_only_the_one_still_open_is_asked_for() -> None:
    other = ToolCall.of(GET.name, "{}", id="c3")
    telling = encoder()
    fed(telling, WAITING, other)
    telling.asked(WAITING, "appr_1")
    telling.asked(other, "appr_2")
    telling.denied("c2")
    assert [item["id"] for item in telling.finish(waits=True)[-1]["response"]["output"]] == ["appr_2"]


def test_nobody_is_asked_about_a_call_of_a_round_that_the_model_has_gone_on_from() -> None:
    telling = encoder()
    fed(telling, WAITING)
    telling.asked(WAITING, "appr_1")
    telling.feed(TextDelta("Then not."))
    assert [item["type"] for item in telling.finish(waits=True)[-1]["response"]["output"]] == ["message"]


def test_a_call_that_was_never_run_is_left_incomplete_when_the_model_goes_on() -> None:
    telling = encoder()
    fed(telling, CALL)
    told = telling.feed(TextDelta("Well"))
    assert kinds(told)[:2] == ["output_item.done", "output_item.added"]
    assert told[0]["item"]["status"] == "incomplete"
    assert telling.started(CALL)[0]["output_index"] == 2


def test_the_tools_of_a_declared_server_are_listed_or_it_is_said_why_not() -> None:
    telling = encoder()
    told = telling.listed("sky", [HOSTED[WEATHER.name]]) + telling.listed("sea", [], error="gone")
    steps = ["output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done"]
    failed = [*steps[:2], "mcp_list_tools.failed", steps[3]]
    assert kinds(told) == ["created", "in_progress", *steps, *failed]
    found, missing = telling.finish()[-1]["response"]["output"]
    assert [(tool["name"], tool["input_schema"]) for tool in found["tools"]] == [(WEATHER.name, WEATHER.parameters)]
    assert found["tools"][0]["annotations"] == {"readOnlyHint": True}
    assert (missing["tools"], missing["error"]) == ([], "gone")


def test_progress_rides_beside_a_step_that_clients_know() -> None:
    telling = encoder()
    fed(telling, CALL)
    telling.started(CALL)
    (told,) = telling.progressed("c1", {"done": 1})
    assert (told["type"], told["ferrule"]) == ("response.mcp_call.in_progress", {"progress": {"done": 1}})
    assert not telling.progressed("c7", {"done": 1})


def test_a_result_of_a_call_that_nobody_told_of_is_nobodys_item() -> None:
    assert not encoder().finished(ToolResult("c7", "x", "1"))


def test_a_tool_that_is_gone_is_told_under_a_label_all_the_same() -> None:
    telling = encoder()
    telling.started(ToolCall.of("gone", "{}", id="c7"))
    item = telling.response["output"][0]
    assert (item["server_label"], item["name"]) == ("ferrule", "gone")


def test_what_a_round_came_to_rides_on_the_next_event_so_that_a_crash_does_not_lose_it() -> None:
    telling = encoder()
    telling.feed(Diagnostic("odd", "something"))
    fed(telling, CALL, usage=Usage(3, 4))
    told = telling.started(CALL)[0]["ferrule"]
    assert told["usage"] == {"prompt_tokens": 3, "completion_tokens": 4}
    assert [note["code"] for note in told["diagnostics"]] == ["odd"]


def test_two_silent_rounds_are_both_counted() -> None:
    telling = encoder()
    for _ in range(2):
        telling.feed(Finish(FinishReason.STOP, Usage(3, 4)))
    assert telling.finish()[-1]["response"]["usage"]["total_tokens"] == 14


def test_a_background_response_is_queued_before_it_begins() -> None:
    telling = encoder()
    told = telling.queue()
    assert telling.response["status"] == "queued"
    assert not telling.queue()
    told += telling.feed(TextDelta("Hi")) + telling.finish()
    assert kinds(told)[:3] == ["created", "queued", "in_progress"]
    assert_well_told(told)


def ended(how: str, error: FerruleError | None = None) -> dict[str, Any]:
    telling = encoder()
    told = telling.feed(TextDelta("Hel")) + telling.feed(CallStart(0, "c1", CALL.name))
    told += telling.fail(error) if error else getattr(telling, how)()
    items = assert_well_told(told)
    assert [item["status"] for item in items.values()] == ["completed", "incomplete"]
    assert not telling.feed(TextDelta("x"))
    assert not telling.finish() + telling.cancel() + telling.cut() + telling.fail(EngineError("x")) + telling.close()
    assert not telling.started(CALL) + telling.asked(CALL) + telling.listed("sky", [])
    return told[-1]


def test_a_cancelled_response_ends_as_incomplete_and_says_cancelled() -> None:
    last = ended("cancel")
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")


def test_a_response_can_end_before_its_time() -> None:
    last = ended("cut")
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
def test_an_error_ends_the_response_in_the_apis_own_words(error: FerruleError, code: str, retryable: bool) -> None:
    last = ended("fail", error)
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["code"] == code
    assert last["response"]["error"]["message"].startswith(error.message)
    assert last["response"]["ferrule"]["error"] == {"code": error.code, "retryable": retryable}


def test_an_answer_that_was_cut_off_is_incomplete_and_one_that_waits_is_not() -> None:
    for waits, kind in ((False, "response.incomplete"), (True, "response.completed")):
        telling = HostedEncoder(HEAD)
        telling.feed(TextDelta("Hel"))
        telling.feed(Finish(FinishReason.LENGTH))
        assert telling.finish(waits=waits)[-1]["type"] == kind


def test_text_that_nobody_ended_is_complete_when_the_answer_is() -> None:
    telling = encoder()
    telling.feed(TextDelta("Hi"))
    assert telling.finish()[-1]["response"]["output"][0]["status"] == "completed"
