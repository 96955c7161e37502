"""The parser on typical model output: reasoning, prose that looks like markup, malformed and cut-off calls."""

from __future__ import annotations

import pytest

from ferrule import ArgumentsDelta, CallEnd, CallStart, FinishReason, Reasoning, Text, TextDelta, fold
from ferrule.core.event import Finish
from ferrule.formats import Parser, get_format, parse
from wire.weather import TOOLS

HERMES = get_format("hermes")
ROME = '{"name": "get_weather", "arguments": {"city": "Rome"}}'


def test_a_call_inside_reasoning_is_parsed_and_the_reasoning_continues_after_it() -> None:
    reply = parse(HERMES, f"<think>let me <tool_call>{ROME}</tool_call> and then</think>done", TOOLS)
    assert [call.name for call in reply.calls] == ["get_weather"]
    assert reply.reasoning == "let me  and then"
    assert reply.text == "done"


def test_reasoning_that_the_prompt_opened_is_reasoning() -> None:
    reply = parse(HERMES, "hm\n</think>\n\nParis.", TOOLS, prefix="<think>\n")
    assert reply.parts == (Reasoning("hm"), Text("Paris."))


def test_what_a_reader_sees_holds_no_marker() -> None:
    reply = parse(HERMES, "hm</think>Paris.</tool_call><|im_end|>", TOOLS)
    assert reply.text == "hmParis."
    assert [note.text for note in reply.diagnostics] == ["</think>", "</tool_call>"]


def test_an_opener_in_prose_is_prose() -> None:
    text = "Write <tool_call> tags like this."
    assert parse(HERMES, text, TOOLS).text == text


def test_text_after_a_call_is_text() -> None:
    reply = parse(HERMES, f"<tool_call>{ROME}</tool_call>\n\nDone.", TOOLS)
    assert reply.text == "\n\nDone."


def test_white_space_around_calls_is_not_text() -> None:
    reply = parse(HERMES, f"<tool_call>\n{ROME}\n</tool_call>\n\n\n<tool_call>\n{ROME}\n</tool_call>\n", TOOLS)
    assert len(reply.calls) == 2
    assert reply.text == ""


@pytest.mark.parametrize("end", range(len(f"<tool_call>\n{ROME}") - 1))
def test_a_cut_off_call_is_never_complete(end: int) -> None:
    reply = parse(HERMES, f"<tool_call>\n{ROME}"[:end], TOOLS)
    assert not reply.calls
    assert not any(isinstance(part, Text) and "name" in part.text for part in reply.parts)


def test_a_cut_off_call_says_so() -> None:
    reply = parse(HERMES, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro', TOOLS)
    assert [call.function.arguments for call in reply.incomplete] == ['{"city": "Ro']
    assert [note.code for note in reply.diagnostics] == ["cut_off"]


def test_a_length_stop_wins_over_a_finished_call() -> None:
    parser = Parser(HERMES, TOOLS)
    events = [*parser.feed(f"<tool_call>{ROME}</tool_call> and"), *parser.close(), Finish(FinishReason.LENGTH)]
    assert fold(events).finish_reason is FinishReason.LENGTH


def test_one_malformed_call_does_not_affect_the_others() -> None:
    broken = '<tool_call>\n{"name": "get_weather", "arguments": {\'city\': \'Oslo\'}}\n</tool_call>'
    good = f"<tool_call>\n{ROME}\n</tool_call>"
    reply = parse(HERMES, f"{good}\n{broken}\n{good}", TOOLS)
    assert [call.arguments for call in reply.calls] == [{"city": "Rome"}, {"city": "Rome"}]
    assert [note.code for note in reply.diagnostics] == ["malformed_call"]
    assert "Oslo" in reply.diagnostics[0].text


def test_arguments_stream_before_the_call_is_over() -> None:
    parser = Parser(HERMES, TOOLS)
    events = parser.feed('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro')
    assert [type(event) for event in events] == [CallStart, ArgumentsDelta]
    assert isinstance(events[1], ArgumentsDelta)
    assert events[1].json == '{"city": "Ro'
    assert isinstance(parser.feed('me"}}\n</tool_call>')[-1], CallEnd)


def test_a_raw_string_argument_streams_and_a_number_waits_for_its_end() -> None:
    parser = Parser(get_format("qwen_xml"), TOOLS)
    head = "<tool_call>\n<function=get_weather>\n<parameter=city>\nRo"
    assert fold(parser.feed(head)).incomplete[0].function.arguments == '{"city": "Ro'
    later = parser.feed("me\n</parameter>\n<parameter=days>\n1")
    assert "".join(event.json for event in later if isinstance(event, ArgumentsDelta)) == 'me", "days": '


def test_a_value_of_the_wrong_type_stays_visible_and_is_reported() -> None:
    text = "<tool_call>\n<function=get_weather>\n<parameter=days>\ntwo\n</parameter>\n</function>\n</tool_call>"
    reply = parse(get_format("qwen_xml"), text, TOOLS)
    assert reply.calls[0].arguments == {"days": "two"}
    assert [note.code for note in reply.diagnostics] == ["undecodable_value"]


def test_an_argument_that_is_there_twice_breaks_the_call() -> None:
    parameter = "<parameter=city>\nRome\n</parameter>\n"
    text = f"<tool_call>\n<function=get_weather>\n{parameter}{parameter}</function>\n</tool_call>"
    assert not parse(get_format("qwen_xml"), text, TOOLS).calls
    twice = '<tool_call>{"name": "get_weather", "arguments": {"city": "a", "city": "b"}}</tool_call>'
    assert not parse(HERMES, twice, TOOLS).calls


@pytest.mark.parametrize("name", ["bare_json", "fenced_json", "xlam", "llama3", "pythonic"])
def test_without_markers_only_offered_tools_are_called(name: str) -> None:
    text = {
        "pythonic": "[delete_all(path='/')]",
        "xlam": '[{"name": "delete_all", "arguments": {}}]',
        "fenced_json": '```json\n{"name": "delete_all", "arguments": {}}\n```',
    }.get(name, '{"name": "delete_all", "arguments": {}}')
    reply = parse(get_format(name), text, TOOLS)
    assert not reply.calls
    assert reply.text == text


@pytest.mark.parametrize("name", ["bare_json", "xlam", "llama3", "fenced_json"])
def test_a_call_quoted_in_a_code_fence_is_not_a_call(name: str) -> None:
    text = f"For example:\n```python\nx = [{ROME}]\n{ROME}\n```\nDo not run that."
    reply = parse(get_format(name), text, TOOLS)
    assert not reply.calls
    assert reply.text == text


def test_ids_that_the_model_wrote_are_kept_verbatim_and_others_are_made_in_the_familys_form() -> None:
    mistral = get_format("mistral_v11")
    with_id = parse(mistral, '[TOOL_CALLS]get_weather[CALL_ID]Zz09aBcDe[ARGS]{"city": "Rome"}', TOOLS)
    assert with_id.calls[0].id == "Zz09aBcDe"
    without_id = parse(get_format("mistral_v13"), '[TOOL_CALLS]get_weather[ARGS]{"city": "Rome"}', TOOLS)
    assert len(without_id.calls[0].id) == 9
    assert without_id.calls[0].id.isalnum()


def test_kimi_counts_calls_over_the_whole_conversation() -> None:
    kimi = get_format("kimi_k2")
    header = "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:4<|tool_call_argument_begin|>{}"
    reply = parse(kimi, f"{header}<|tool_call_end|><|tool_calls_section_end|>", TOOLS)
    assert reply.calls[0].id == "functions.ping:4"


def test_with_nothing_offered_a_bare_object_is_plain_text() -> None:
    assert parse(get_format("bare_json"), '{"name": "ping"}', ()).parts == (Text('{"name": "ping"}'),)


def test_prose_streams_at_once() -> None:
    assert Parser(HERMES, TOOLS).feed("Hello wor") == [TextDelta("Hello wor")]


def test_a_call_without_a_name_is_no_call() -> None:
    reply = parse(HERMES, '<tool_call>{"name": "", "arguments": {}}</tool_call>', TOOLS)
    assert not reply.calls


def test_a_counter_in_other_digits_is_no_id() -> None:
    head = "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:²<|tool_call_argument_begin|>{}"
    assert not parse(get_format("kimi_k2"), f"{head}<|tool_call_end|><|tool_calls_section_end|>", TOOLS).calls


def test_a_recipient_before_the_channel_is_read_at_the_start_of_a_turn() -> None:
    text = ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Rome"}<|call|>'
    assert [call.arguments for call in parse(get_format("harmony"), text, TOOLS).calls] == [{"city": "Rome"}]


def test_a_quote_that_the_template_forgot_to_escape_stays_in_the_string() -> None:
    text = "<|tool_call_start|>[get_weather(city='Pa\"r'is', days=2)]<|tool_call_end|>"
    assert [call.arguments for call in parse(get_format("lfm2"), text, TOOLS).calls] == [
        {"city": "Pa\"r'is", "days": 2}
    ]


def test_an_unknown_key_is_reported() -> None:
    reply = parse(HERMES, '<tool_call>{"name": "ping", "arguments": {}, "mood": [1]}</tool_call>', TOOLS)
    assert [(note.code, note.text) for note in reply.diagnostics] == [("unknown_key", "[1]")]
