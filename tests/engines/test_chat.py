"""Every call from a provider is checked before it is forwarded, and every problem is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engines.providers import (
    IMPATIENT,
    QUICK,
    CannedResponse,
    call,
    chat_completion,
    chunk,
    generate,
    provider,
    sse,
    stream_events,
)
from engines.tools import PING, TAGS, WEATHER, make_request
from ferrule import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ChatMessage,
    Finish,
    FinishReason,
    FunctionCall,
    SchemaError,
    TextDelta,
    ToolCallRequest,
    ToolChoice,
    ToolDefinition,
    Usage,
)
from ferrule.core.call import How
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.http import Deadlines
from ferrule.engines.openai import openai
from ferrule.errors import EngineError, EngineTimeoutError, UnsupportedError
from ferrule.schema.checker import checker_for
from waiting import PATIENCE

GOOD = '{"city": "Paris", "days": 2}'
BAD = '{"city": "Paris", "days": 9}'
USED = {"usage": {"prompt_tokens": 20, "completion_tokens": 7}}


def engine_factory(
    repairs: int = 1, honours: tuple[str, ...] | None = None, deadlines: Deadlines = QUICK, is_streamed: bool = True
) -> Callable[[str], ChatEngine]:
    options = ChatOptions(repairs=repairs, is_streamed=is_streamed)
    return lambda url: openai("m", options, url=url, honours=honours, deadlines=deadlines)


def call_response(*pieces: str, finish: str = "tool_calls", name: str = "get_weather") -> CannedResponse:
    """A streamed call with these pieces of arguments."""
    first, *rest = pieces
    more = [chunk(call(piece, None, None)) for piece in rest]
    return sse(chunk(call(first, name)), *more, chunk({}, finish), {"choices": [], **USED}, done=True)


def text_response(text: str) -> CannedResponse:
    return sse(chunk({"content": text}), chunk({}, "stop"), done=True)


def repair_response(arguments: object, name: str = "get_weather") -> CannedResponse:
    """The whole answer to a repair; the id is not that of the call."""
    return chat_completion({"tool_calls": [{"id": "other", "function": {"name": name, "arguments": arguments}}]})


def test_a_valid_call_is_forwarded_with_a_receipt_that_says_it_was_checked_afterwards() -> None:
    reply, requests = generate(
        engine_factory(), [call_response('{"city": ', '"Paris", ', '"days": 2}')], make_request()
    )
    receipt = reply.calls[0].receipt
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert receipt is not None
    assert (receipt.how, receipt.path, receipt.enforced, receipt.tokens) == (How.VALIDATED, "chat", (), 7)
    assert "maximum" in receipt.checked
    assert (reply.finish, reply.usage, len(requests)) == (FinishReason.TOOL_CALLS, Usage(20, 7), 1)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_call_that_does_not_fit_gets_its_arguments_written_again_and_keeps_its_id(is_streamed: bool) -> None:
    first = call_response(BAD) if is_streamed else repair_response(BAD)
    reply, requests = generate(engine_factory(is_streamed=is_streamed), [first, repair_response(GOOD)], make_request())
    made_call = reply.calls[0]
    assert (made_call.id, made_call.function.arguments) == ("c1" if is_streamed else "other", GOOD)
    assert made_call.receipt is not None
    assert made_call.receipt.how is How.REPAIRED
    assert any("/days" in note for note in made_call.receipt.notes)
    assert reply.diagnostics == ()
    assert reply.finish is FinishReason.TOOL_CALLS
    *_, attempt, result = requests[1].body["messages"]
    assert attempt["tool_calls"][0]["function"]["arguments"] == BAD
    assert "invalid_arguments: /days" in result["content"]
    assert (requests[1].body["tool_choice"], requests[1].body["stream"]) == ("required", False)


def test_the_usage_of_a_repair_is_counted() -> None:
    reply, _ = generate(engine_factory(), [call_response(BAD), repair_response(GOOD)], make_request())
    assert reply.usage == Usage(30, 12)


def test_a_repair_that_does_not_fit_either_ends_in_a_refusal() -> None:
    reply, requests = generate(engine_factory(), [call_response(BAD), repair_response('{"city": 1}')], make_request())
    receipt = reply.incomplete[0].receipt
    assert receipt is not None
    assert (receipt.how, reply.calls, len(requests)) == (How.REFUSED, (), 2)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["invalid_arguments"]
    assert "after the repair: /city" in reply.diagnostics[0].message
    assert reply.incomplete[0].function.arguments == BAD


def test_there_are_as_many_repairs_as_were_allowed_and_each_sees_the_last_attempt() -> None:
    reply, requests = generate(
        engine_factory(repairs=2),
        [call_response(BAD), repair_response('{"city": 1}'), repair_response(GOOD)],
        make_request(),
    )
    assert reply.calls[0].function.arguments == GOOD
    assert "invalid_arguments: /city" in requests[2].body["messages"][-1]["content"]


def test_arguments_that_are_no_json_are_quoted_to_the_model_and_never_become_an_empty_object() -> None:
    reply, requests = generate(
        engine_factory(), [call_response('{"city": "Par'), repair_response(GOOD)], make_request()
    )
    attempt, question = requests[1].body["messages"][-2:]
    assert "tool_calls" not in attempt
    assert '{"city": "Par' in attempt["content"]
    assert question["content"].startswith("invalid_arguments: ")
    assert reply.calls[0].function.arguments == GOOD
    assert "bad_arguments" not in [diagnostic.code for diagnostic in reply.diagnostics]


@settings(max_examples=25)
@given(st.text(max_size=30))
@example("")
@example("null")
@example("[]")
@example("{}")
@example(GOOD)
def test_only_valid_arguments_are_ever_forwarded(arguments: str) -> None:
    fits = not checker_for(WEATHER.parameters).faults_of_text(arguments)
    for repairs in (0, 1):
        reply, _ = generate(
            engine_factory(repairs), [call_response(arguments), repair_response(arguments)], make_request()
        )
        assert [made_call.function.arguments for made_call in reply.calls] == [arguments] * fits
        assert [made_call.function.arguments for made_call in reply.incomplete] == [arguments] * (not fits)


def test_a_tool_without_parameters_may_be_called_without_arguments_and_the_reply_says_so() -> None:
    reply, _ = generate(engine_factory(), [call_response("", name="ping")], make_request(tools=(PING,)))
    assert reply.calls[0].arguments == {}
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["empty_arguments"]


UNKNOWN = "get_wealth"


def test_a_name_that_was_not_offered_is_refused_at_once_where_no_repair_is_allowed() -> None:
    reply, requests = generate(engine_factory(repairs=0), [call_response(GOOD, name=UNKNOWN)], make_request())
    assert (reply.calls, len(requests)) == ((), 1)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["not_offered"]


def test_a_call_of_a_tool_that_was_not_offered_is_written_again_and_keeps_its_id() -> None:
    reply, requests = generate(
        engine_factory(), [call_response(GOOD, name=UNKNOWN), repair_response(GOOD)], make_request()
    )
    made_call = reply.calls[0]
    assert (made_call.id, made_call.name, made_call.function.arguments) == ("c1", "get_weather", GOOD)
    assert made_call.receipt is not None
    assert made_call.receipt.how is How.REPAIRED
    assert any(UNKNOWN in note for note in made_call.receipt.notes)
    assert (reply.incomplete, reply.diagnostics, reply.finish) == ((), (), FinishReason.TOOL_CALLS)
    assert reply.usage == Usage(30, 12)
    *_, attempt, result = requests[1].body["messages"]
    assert attempt["tool_calls"][0]["function"]["name"] == UNKNOWN
    assert "get_weather" in result["content"]
    # The model may also answer without a call: which tool it meant is not known.
    assert requests[1].body.get("tool_choice", "auto") == "auto"


def test_nothing_of_a_call_that_may_still_be_replaced_is_forwarded() -> None:
    answer = sse(chunk({"content": "One moment."}), chunk(call(GOOD, UNKNOWN)), chunk({}, "tool_calls"))
    events = stream_events(engine_factory(), [answer, repair_response(GOOD)], make_request())
    assert events[:3] == [TextDelta("One moment."), CallStart(0, "c1", "get_weather"), ArgumentsDelta(0, GOOD)]
    assert [type(event) for event in events[3:]] == [CallEnd, Finish]


def test_a_model_that_answers_in_words_after_a_call_of_an_unknown_tool_is_heard() -> None:
    answer = sse(chunk({"content": "One moment."}), chunk(call(GOOD, UNKNOWN)), chunk({}, "tool_calls"))
    reply, _ = generate(engine_factory(), [answer, chat_completion({"content": "I cannot know."})], make_request())
    assert reply.text == "One moment.\n\nI cannot know."
    assert [made_call.name for made_call in reply.incomplete] == [UNKNOWN]
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["call_withdrawn"]
    assert (reply.calls, reply.finish) == ((), FinishReason.STOP)


def test_words_of_a_repair_are_left_out_where_the_answer_has_a_valid_call() -> None:
    answer = sse(chunk(call(GOOD, UNKNOWN)), chunk(call(GOOD, id="c2", index=1)), chunk({}, "tool_calls"))
    reply, _ = generate(engine_factory(), [answer, chat_completion({"content": "I cannot know."})], make_request())
    assert (reply.text, [made_call.id for made_call in reply.calls]) == ("", ["c2"])
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["not_offered"]


@pytest.mark.parametrize("second", [(GOOD, "get_health"), (BAD, "get_weather")])
def test_a_second_call_that_is_wrong_too_is_refused_and_nothing_is_sent_a_third_time(second: tuple[str, str]) -> None:
    reply, requests = generate(
        engine_factory(), [call_response(GOOD, name=UNKNOWN), repair_response(*second)], make_request()
    )
    assert (reply.calls, len(requests)) == ((), 2)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["not_offered"]
    assert "after the repair" in reply.diagnostics[0].message
    assert [made_call.name for made_call in reply.incomplete] == [UNKNOWN]


def test_a_second_repair_of_an_unknown_name_may_mend_the_arguments() -> None:
    answers = [call_response(GOOD, name=UNKNOWN), repair_response(BAD), repair_response(GOOD)]
    reply, requests = generate(engine_factory(repairs=2), answers, make_request())
    assert [made_call.function.arguments for made_call in reply.calls] == [GOOD]
    assert requests[2].body["tool_choice"] == "required"


def test_a_required_call_of_an_unknown_tool_is_written_again_as_a_required_call() -> None:
    answers = [call_response(GOOD, name=UNKNOWN), repair_response(GOOD)]
    reply, requests = generate(engine_factory(), answers, make_request(choice=ToolChoice.required()))
    assert [made_call.name for made_call in reply.calls] == ["get_weather"]
    assert requests[1].body["tool_choice"] == "required"


def test_a_repair_that_calls_another_tool_is_not_taken() -> None:
    reply, _ = generate(
        engine_factory(),
        [call_response(BAD), repair_response('{"tags": []}', "set_tags")],
        make_request(tools=(WEATHER, TAGS)),
    )
    assert reply.calls == ()
    assert "did not call the tool again" in reply.diagnostics[0].message


def test_an_engine_that_fails_during_a_repair_costs_the_call_and_not_the_answer() -> None:
    reply, _ = generate(
        engine_factory(),
        [sse(chunk({"content": "One moment."}), chunk(call(BAD)), chunk({}, "tool_calls"))],
        make_request(),
    )
    assert reply.text == "One moment."
    assert "the repair failed" in reply.diagnostics[0].message
    assert reply.finish is FinishReason.STOP


def test_while_repairs_are_possible_arguments_are_buffered_and_text_streams() -> None:
    answer = sse(chunk({"content": "One "}), chunk({"content": "moment."}), *_pieces(BAD), chunk({}, "tool_calls"))
    events = stream_events(engine_factory(), [answer, repair_response(GOOD)], make_request())
    assert events[:2] == [TextDelta("One "), TextDelta("moment.")]
    assert [type(event) for event in events[2:]] == [CallStart, ArgumentsDelta, CallEnd, Finish]
    assert events[3] == ArgumentsDelta(0, GOOD)


def test_without_repairs_arguments_stream_as_they_come() -> None:
    events = stream_events(engine_factory(repairs=0), [sse(*_pieces(BAD), chunk({}, "tool_calls"))], make_request())
    deltas = [event.json for event in events if isinstance(event, ArgumentsDelta)]
    assert len(deltas) > 3
    assert "".join(deltas) == BAD
    assert CallEnd(0, complete=False) in events


def _pieces(arguments: str) -> list[dict[str, object]]:
    pieces = [arguments[at : at + 5] for at in range(0, len(arguments), 5)]
    return [chunk(call(pieces[0])), *(chunk(call(piece, None, None)) for piece in pieces[1:])]


def test_a_good_call_does_not_wait_for_the_repair_of_another() -> None:
    answer = sse(chunk(call(BAD)), chunk(call('{"city": "Rome"}', id="c2", index=1)), chunk({}, "tool_calls"))
    events = stream_events(engine_factory(), [answer, repair_response(GOOD)], make_request())
    ends = [event.index for event in events if isinstance(event, CallEnd)]
    assert ends == [1, 0]
    reply, _ = generate(engine_factory(), [answer, repair_response(GOOD)], make_request())
    assert [made_call.id for made_call in reply.calls] == ["c1", "c2"]


CUT = '{"city": "Par'


def test_a_call_that_was_cut_off_is_refused_where_no_repair_is_allowed_and_length_wins() -> None:
    reply, requests = generate(engine_factory(repairs=0), [call_response(CUT, finish="length")], make_request())
    assert (reply.calls, reply.finish, len(requests)) == ((), FinishReason.LENGTH, 1)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["invalid_arguments"]


def test_a_call_that_was_cut_off_is_written_again_and_the_model_is_told_the_limit() -> None:
    answers = [call_response(CUT, finish="length"), repair_response(GOOD)]
    reply, requests = generate(engine_factory(), answers, make_request())
    assert [made_call.function.arguments for made_call in reply.calls] == [GOOD]
    assert (reply.finish, reply.incomplete) == (FinishReason.TOOL_CALLS, ())
    assert "cut off at the limit of 512 tokens" in requests[1].body["messages"][-1]["content"]


def test_a_call_that_is_cut_off_again_is_never_forwarded_and_length_wins() -> None:
    cut_again = chat_completion(
        {"tool_calls": [{"id": "other", "function": {"name": "get_weather", "arguments": CUT}}]}, "length"
    )
    reply, requests = generate(engine_factory(), [call_response(CUT, finish="length"), cut_again], make_request())
    assert (reply.calls, reply.finish, len(requests)) == ((), FinishReason.LENGTH, 2)


def test_length_wins_where_the_limit_cut_the_text_after_an_invalid_call() -> None:
    answer = sse(chunk(call(BAD)), chunk({"content": "And then"}), chunk({}, "length"))
    reply, requests = generate(engine_factory(), [answer], make_request())
    assert (reply.calls, reply.finish, len(requests)) == ((), FinishReason.LENGTH, 1)


def test_an_unknown_tool_whose_call_was_cut_off_is_replaced_too() -> None:
    answers = [call_response(CUT, finish="length", name=UNKNOWN), repair_response(GOOD)]
    reply, _ = generate(engine_factory(), answers, make_request())
    assert ([made_call.name for made_call in reply.calls], reply.finish) == (["get_weather"], FinishReason.TOOL_CALLS)


def test_a_second_call_is_refused_where_one_was_allowed() -> None:
    answer = sse(chunk(call(GOOD)), chunk(call(GOOD, id="c2", index=1)), chunk({}, "tool_calls"))
    reply, requests = generate(engine_factory(), [answer], replace(make_request(), parallel_tool_calls=False))
    assert requests[0].body["parallel_tool_calls"] is False
    assert [made_call.id for made_call in reply.calls] == ["c1"]
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["one_call_only"]


def test_calls_without_ids_get_one_each() -> None:
    answer = sse(chunk(call(GOOD, id=None)), chunk(call(GOOD, id=None, index=1)), chunk({}, "tool_calls"))
    reply, _ = generate(engine_factory(), [answer], make_request())
    ids = {made_call.id for made_call in reply.calls}
    assert len(ids) == 2
    assert "" not in ids


def test_a_required_call_that_is_missing_is_an_error() -> None:
    prose = sse(chunk({"content": "It is sunny."}), chunk({}, "stop"))
    with pytest.raises(EngineError, match="the model made none") as missing:
        generate(engine_factory(), [prose], make_request(choice=ToolChoice.required()))
    assert missing.value.code == "no_valid_call"


def test_a_required_call_that_never_fits_is_an_error_with_its_faults() -> None:
    answers = [call_response(BAD), repair_response(BAD)]
    with pytest.raises(EngineError, match="/days") as missing:
        generate(engine_factory(), answers, make_request(choice=ToolChoice.required()))
    assert missing.value.code == "no_valid_call"


def test_an_empty_answer_to_a_required_call_is_retried_once() -> None:
    empty = sse(chunk({}, "stop"), {"choices": [], **USED})
    reply, requests = generate(
        engine_factory(), [empty, call_response(GOOD)], make_request(choice=ToolChoice.required())
    )
    assert (len(reply.calls), len(requests), reply.usage) == (1, 2, Usage(40, 14))
    with pytest.raises(EngineError, match="the model made none"):
        generate(engine_factory(), [empty, empty], make_request(choice=ToolChoice.required()))


def test_an_answer_that_must_fit_a_schema_and_does_not_is_reported() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    request = ToolCallRequest(messages=(ChatMessage.user("x"),), response_schema=schema)
    for text, codes in (('{"a": 1}', []), ('{"a": "one"}', ["invalid_answer"]), ("Sure!", ["invalid_answer"])):
        reply, _ = generate(engine_factory(), [sse(chunk({"content": text}), chunk({}, "stop"))], request)
        assert [diagnostic.code for diagnostic in reply.diagnostics] == codes


@pytest.mark.parametrize(
    "last, code", [([{"error": {"message": "out of memory"}}], "engine_error"), ([], "broken_off")]
)
def test_an_answer_that_breaks_off_raises_only_if_nothing_was_forwarded(last: list[dict], code: str) -> None:
    with pytest.raises(EngineError) as caught:
        generate(engine_factory(), [sse(*last)], make_request())
    assert caught.value.code == code
    events = stream_events(engine_factory(), [sse(chunk({"content": "It is"}), *last)], make_request())
    assert events[0] == TextDelta("It is")
    assert [getattr(event, "code", "") for event in events[1:-1]] == [code]
    assert events[-1] == Finish(FinishReason.LENGTH, None)


def test_a_good_call_before_the_break_stands_and_an_open_one_is_refused() -> None:
    answer = sse(chunk(call(GOOD)), chunk(call('{"city": "Ro', id="c2", index=1)))
    reply, requests = generate(engine_factory(), [answer], make_request())
    assert [made_call.id for made_call in reply.calls] == ["c1"]
    assert [made_call.id for made_call in reply.incomplete] == ["c2"]
    assert (reply.finish, len(requests)) == (FinishReason.LENGTH, 1)


def test_an_error_in_mid_stream_is_not_waited_on() -> None:
    response = sse(chunk({"content": "It is"}), {"error": {"message": "overloaded"}})
    events = stream_events(engine_factory(deadlines=IMPATIENT), [replace(response, stalls=True)], make_request())
    assert events[-1] == Finish(FinishReason.LENGTH, None)


def test_a_stall_past_the_deadline_raises() -> None:
    stalled_response = replace(sse(chunk({"content": "It is"})), stalls=True)
    with pytest.raises(EngineTimeoutError):
        generate(engine_factory(deadlines=IMPATIENT), [stalled_response], make_request())


def test_a_request_to_a_busy_provider_is_retried() -> None:
    busy = CannedResponse((b'{"error": {"message": "slow down"}}',), 429)
    reply, requests = generate(engine_factory(), [busy, call_response(GOOD)], make_request())
    assert (len(reply.calls), len(requests)) == (1, 2)


def test_closing_the_stream_closes_the_connection() -> None:
    async def close_early() -> None:
        stalled_response = replace(sse(chunk({"content": "It is"})), stalls=True)
        async with provider(stalled_response) as served, engine_factory()(served.url) as engine:
            events = engine.stream(make_request())
            assert await anext(events) == TextDelta("It is")
            await events.aclose()
            await asyncio.wait_for(served.disconnected.wait(), PATIENCE)

    asyncio.run(close_early())


def test_what_is_not_json_in_a_stream_is_the_engines_error() -> None:
    for data in (b"data: <html>\n\n", b"data: [1]\n\n"):
        with pytest.raises(EngineError) as caught:
            generate(engine_factory(), [CannedResponse((data,))], make_request())
        assert caught.value.code == "bad_stream"


def test_a_choice_that_cannot_be_expressed_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(UnsupportedError):
        _expect_nothing_sent(make_request(choice=ToolChoice.required()), honours=("auto",))


def test_a_schema_that_is_not_admitted_is_refused_before_anything_is_sent() -> None:
    far = ToolDefinition("far", "", {"type": "object", "properties": {"a": {"$ref": "http://example.com/x"}}})
    with pytest.raises(SchemaError, match="far"):
        _expect_nothing_sent(make_request(tools=(far,)))


def _expect_nothing_sent(request: ToolCallRequest, honours: tuple[str, ...] | None = None) -> None:
    async def work() -> None:
        async with provider() as served, engine_factory(honours=honours)(served.url) as engine:
            try:
                await engine.generate_with_tools(request)
            finally:
                assert served.requests == []

    asyncio.run(work())


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_call_that_the_server_left_in_the_text_is_read(is_streamed: bool) -> None:
    text = f'```json\n{{"name": "get_weather", "arguments": {GOOD}}}\n```'
    response = (
        sse(*(chunk({"content": text[at : at + 9]}) for at in range(0, len(text), 9)), chunk({}, "stop"), done=True)
        if is_streamed
        else chat_completion({"content": text})
    )
    reply, _ = generate(engine_factory(is_streamed=is_streamed), [response], make_request())
    receipt = reply.calls[0].receipt
    assert (reply.calls[0].arguments, reply.text) == ({"city": "Paris", "days": 2}, "")
    assert receipt is not None
    assert receipt.drifted == "the API's own -> fenced_json"
    assert reply.finish is FinishReason.TOOL_CALLS


def test_a_call_in_the_text_that_does_not_fit_is_written_again() -> None:
    text = f'Sure.\n```json\n{{"name": "get_weather", "arguments": {BAD}}}\n```'
    reply, served = generate(engine_factory(), [text_response(text), repair_response(GOOD)], make_request())
    assert [call.arguments for call in reply.calls] == [{"city": "Paris", "days": 2}]
    assert (reply.text.strip(), len(served)) == ("Sure.", 2)


def test_what_the_model_cannot_mend_stays_the_text_that_it_was() -> None:
    text = f'Sure.\n```json\n{{"name": "get_weather", "arguments": {BAD}}}\n```'
    reply, _ = generate(engine_factory(), [text_response(text), repair_response(BAD)], make_request())
    assert (reply.calls, reply.incomplete, reply.text) == ((), (), text)


REPEATED = repair_response(GOOD)


@pytest.mark.parametrize(
    "answer, calls",
    [
        (repair_response("{}", "ping"), ["ping"]),
        (chat_completion({"content": "I stop here."}, "stop"), []),
        (REPEATED, []),
    ],
    ids=["another tool", "a text", "the same again"],
)
def test_a_call_that_is_excluded_is_withdrawn_and_another_tool_or_a_text_may_replace_it(
    answer: CannedResponse, calls: list[str]
) -> None:
    request = replace(
        make_request(tools=(WEATHER, PING)), excluded_calls=(FunctionCall("get_weather", '{"days":2,"city":"Paris"}'),)
    )
    answers = [call_response('{"city": "Paris", ', '"days": 2}'), answer]
    reply, requests = generate(engine_factory(honours=("auto", "none")), answers, request)
    assert [one.name for one in reply.calls if one.complete] == calls
    assert [one["function"]["name"] for one in requests[1].body["tools"]] == ["ping"]
    assert "again and again" in str(requests[1].body["messages"][-1])
    assert reply.text == ("" if calls or answer is REPEATED else "I stop here.")
    assert answer is REPEATED or all(one.name != "get_weather" for one in reply.calls if one.complete)


def test_another_call_of_a_tool_with_an_excluded_call_passes() -> None:
    request = replace(make_request(), excluded_calls=(FunctionCall("get_weather", '{"city":"Rome","days":2}'),))
    reply, _ = generate(engine_factory(), [call_response(GOOD)], request)
    assert [one.function.arguments for one in reply.calls] == [GOOD]
