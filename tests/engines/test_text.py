"""A text generator and a format make an engine: prompt, grammar, parser and receipts work together."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tools import PING, PLAIN_TEMPLATE, TAGS, WEATHER, make_request
from ferrule import (
    ArgumentsDelta,
    CallEnd,
    ChatMessage,
    DefinitionError,
    Finish,
    FinishReason,
    SchemaError,
    ToolCall,
    ToolCallRequest,
    ToolChoice,
    ToolDefinition,
)
from ferrule.core.call import How
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError, UnsupportedError
from ferrule.rules.matcher import ByteMatcher

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
FACTS = ModelFacts(template=PLAIN_TEMPLATE)
HERMES = TextOptions(format="hermes")


def make_engine(
    *texts: str, options: TextOptions = HERMES, size: int = 3, cut: bool = False
) -> tuple[TextEngine, FakeGenerator]:
    fake = FakeGenerator(texts, FACTS, size=size, is_cut_off=cut)
    return TextEngine(fake, options), fake


def test_a_call_has_a_receipt_that_says_how_it_was_constrained() -> None:
    reply = make_engine(PARIS)[0].generate(make_request())
    receipt = reply.calls[0].receipt
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert receipt is not None
    assert (receipt.how, receipt.path, receipt.format) == (How.GRAMMAR, "completion+lark", "hermes")
    assert {"type", "required", "minimum"} <= {*receipt.enforced}
    assert reply.finish is FinishReason.TOOL_CALLS


def test_a_receipt_names_what_the_client_asked_for_and_nobody_carries_out() -> None:
    reply = make_engine(PARIS)[0].generate(replace(make_request(), ignored=("logit_bias",)))
    assert reply.calls[0].receipt is not None
    assert "ignored: logit_bias" in reply.calls[0].receipt.notes


@given(st.integers(1, 40))
def test_the_size_of_the_pieces_does_not_change_the_reply(size: int) -> None:
    text = f"One moment.\n{PARIS}\n{PARIS}"
    reply, by_character = (make_engine(text, size=n)[0].generate(make_request()) for n in (size, 1))
    assert [call.function for call in reply.calls] == [call.function for call in by_character.calls]
    assert (reply.text, reply.finish, reply.diagnostics) == (by_character.text, FinishReason.TOOL_CALLS, ())


def test_the_grammar_that_the_backend_gets_admits_the_call_and_no_other_tool() -> None:
    engine, fake = make_engine(PARIS)
    engine.generate(make_request(choice=ToolChoice.required()))
    grammar = fake.requests[0].grammar
    assert grammar is not None
    matcher = ByteMatcher(grammar.text)
    assert matcher.accepts(PARIS)
    assert not matcher.accepts(PARIS.replace("get_weather", "get_wealth"))
    assert not matcher.accepts("It is sunny.")


def test_what_the_grammar_cannot_express_is_checked_and_an_invalid_call_is_refused() -> None:
    text = '<tool_call>\n{"name": "set_tags", "arguments": {"tags": ["a", "a"]}}\n</tool_call>'
    reply = make_engine(text)[0].generate(make_request(tools=(TAGS,)))
    assert reply.calls == ()
    receipt = reply.incomplete[0].receipt
    assert receipt is not None
    assert receipt.how is How.REFUSED
    assert "uniqueItems" in receipt.checked
    assert reply.diagnostics[0].code == "invalid_arguments"
    assert "/tags" in reply.diagnostics[0].message


def test_without_a_grammar_a_name_that_was_not_offered_is_refused() -> None:
    options = TextOptions(format="hermes", is_constrained=False)
    reply = make_engine(PARIS, options=options)[0].generate(make_request(tools=(PING,)))
    assert reply.calls == ()
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["not_offered"]


def test_without_a_grammar_a_call_of_an_unknown_tool_is_written_again() -> None:
    options = TextOptions(format="hermes", is_constrained=False)
    engine, fake = make_engine(PARIS.replace("get_weather", "get_wealth"), PARIS, options=options)
    reply = engine.generate(make_request())
    receipt = reply.calls[0].receipt
    assert (reply.calls[0].name, reply.incomplete, reply.diagnostics) == ("get_weather", (), ())
    assert receipt is not None
    assert receipt.how is How.REPAIRED
    assert "'get_wealth' is not offered" in fake.requests[1].prompt


def test_without_a_grammar_every_keyword_is_checked_after() -> None:
    options = TextOptions(format="hermes", is_constrained=False)
    receipt = make_engine(PARIS, options=options)[0].generate(make_request()).calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.enforced) == (How.VALIDATED, ())
    assert "minimum" in receipt.checked


def test_without_a_grammar_a_required_call_is_refused_before_anything_is_generated() -> None:
    engine, fake = make_engine(PARIS, options=TextOptions(format="hermes", is_constrained=False))
    with pytest.raises(UnsupportedError):
        engine.generate(make_request(choice=ToolChoice.required()))
    assert fake.requests == []


def test_a_choice_that_names_no_offered_tool_is_refused_before_anything_is_generated() -> None:
    engine, fake = make_engine(PARIS)
    with pytest.raises(DefinitionError):
        engine.generate(make_request(choice=ToolChoice.one("nothing")))
    assert fake.requests == []


def test_a_schema_that_is_not_admitted_names_its_tool() -> None:
    bad = ToolDefinition("far", "", {"type": "object", "properties": {"a": {"$ref": "http://example.com/x"}}})
    with pytest.raises(SchemaError, match="far"):
        make_engine(PARIS)[0].generate(make_request(tools=(bad,)))


def test_a_reply_that_ran_out_of_tokens_says_so_and_its_incomplete_call_is_refused() -> None:
    reply = make_engine(PARIS[:60], cut=True)[0].generate(make_request())
    assert reply.finish is FinishReason.LENGTH
    assert reply.calls == ()
    assert len(reply.incomplete) == 1


def test_deltas_arrive_before_the_call_is_over_and_are_a_prefix_of_its_arguments() -> None:
    async def collect() -> list[object]:
        return [event async for event in make_engine(PARIS, size=1)[0].stream(make_request())]

    events = asyncio.run(collect())
    first = next(n for n, event in enumerate(events) if isinstance(event, ArgumentsDelta))
    last = next(n for n, event in enumerate(events) if isinstance(event, CallEnd))
    assert first < last - 5
    assert isinstance(events[-1], Finish)


def test_closing_the_stream_stops_the_backend() -> None:
    async def stop_early() -> FakeGenerator:
        engine, fake = make_engine(PARIS * 50, size=1)
        events = engine.stream(make_request())
        async for event in events:
            if isinstance(event, ArgumentsDelta):
                break
        await events.aclose()
        return fake

    fake = asyncio.run(stop_early())
    assert fake.is_closed
    assert fake.pieces_written < len(PARIS)


def test_an_answer_that_must_fit_a_schema_and_does_not_is_reported() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}, "required": ["a"]}
    request = ToolCallRequest(messages=(ChatMessage.user("x"),), response_schema=schema)
    reply = make_engine('{"a": [1, 1]}')[0].generate(request)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["invalid_answer"]


def test_a_template_without_tools_gets_them_explained_and_the_receipt_says_so() -> None:
    engine, fake = make_engine(PARIS)
    receipt = engine.generate(make_request()).calls[0].receipt
    assert receipt is not None
    assert any("explained in the prompt" in note for note in receipt.notes)
    assert "get_weather" in fake.requests[0].prompt


def test_results_come_back_as_a_users_message_where_the_template_has_no_tool_role() -> None:
    engine, fake = make_engine("It is sunny.")
    call = ToolCall.of("get_weather", {"city": "Paris"}, id="c1")
    history = (
        ChatMessage.user("How is Paris?"),
        ChatMessage.assistant(tool_calls=[call]),
        ChatMessage.tool("c1", "sunny", "get_weather"),
    )
    reply = engine.generate(ToolCallRequest(messages=history, tools=(WEATHER,)))
    assert reply.text == "It is sunny."
    assert "<|im_start|>user\n<tool_response>\nsunny" in fake.requests[0].prompt


def test_without_a_named_format_the_template_decides() -> None:
    text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
    engine, _ = make_engine(text, options=TextOptions())
    assert asyncio.run(engine.format()).name == "generic_xml"


def test_a_backend_that_ignores_its_grammar_is_detected() -> None:
    with pytest.raises(EngineError, match="the model made none") as missing:
        make_engine("I would rather talk.")[0].generate(make_request(choice=ToolChoice.required()))
    assert missing.value.code == "no_valid_call"


UNIQUE = ToolDefinition(
    "tag",
    "",
    {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}},
)
TWICE = '<tool_call>\n{"name": "tag", "arguments": {"tags": ["a", "a"]}}\n</tool_call>'


@pytest.mark.parametrize("choice", [ToolChoice.auto(), ToolChoice.required()])
def test_arguments_that_only_validation_can_reject_are_written_again(choice: ToolChoice) -> None:
    engine, fake = make_engine(TWICE, TWICE.replace('"a", "a"', '"a", "b"'))
    request = ToolCallRequest(messages=(ChatMessage.user("go"),), tools=(UNIQUE, PING), tool_choice=choice)
    reply = engine.generate(request)
    receipt = reply.calls[0].receipt
    assert [call.arguments for call in reply.calls] == [{"tags": ["a", "b"]}]
    assert receipt is not None
    assert (receipt.how, "uniqueItems" in receipt.checked) == (How.REPAIRED, True)
    assert "invalid_arguments: /tags" in fake.requests[1].prompt
    assert (reply.finish, reply.incomplete) == (FinishReason.TOOL_CALLS, ())


def test_a_required_call_that_never_fits_is_an_error_and_no_empty_answer() -> None:
    engine, fake = make_engine(*[TWICE] * 3, options=TextOptions(format="hermes", repairs=2))
    request = ToolCallRequest(
        messages=(ChatMessage.user("go"),), tools=(UNIQUE, PING), tool_choice=ToolChoice.required()
    )
    with pytest.raises(EngineError, match="/tags") as missing:
        engine.generate(request)
    assert (missing.value.code, len(fake.requests)) == ("no_valid_call", 3)


def test_a_required_call_that_is_cut_off_is_not_an_error_but_a_length() -> None:
    reply = make_engine(PARIS[:60], cut=True)[0].generate(make_request(choice=ToolChoice.required()))
    assert (reply.calls, reply.finish) == ((), FinishReason.LENGTH)


def test_a_target_that_the_backend_does_not_enforce_is_refused() -> None:
    engine, fake = make_engine(PARIS, options=TextOptions(format="hermes", target="gbnf"))
    with pytest.raises(UnsupportedError, match="gbnf"):
        engine.generate(make_request())
    assert fake.requests == []


def test_an_engine_that_stops_following_its_grammar_is_detected_and_receipts_claim_nothing() -> None:
    invalid = PARIS.replace('"days"', ' "days"')
    reply = make_engine(invalid)[0].generate(make_request())
    receipt = reply.calls[0].receipt
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert receipt is not None
    assert (receipt.how, receipt.enforced) == (How.VALIDATED, ())
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["grammar_lost"]
    assert "grammar" in receipt.notes[-1]


def test_a_repeated_key_in_a_free_object_is_dropped_and_the_receipt_says_so() -> None:
    tool = ToolDefinition("note", "", {"type": "object", "properties": {"about": {"type": "object"}}})
    text = '<tool_call>\n{"name": "note", "arguments": {"about": {"a": 1, "a": 2}}}\n</tool_call>'
    reply = make_engine(text)[0].generate(ToolCallRequest(messages=(ChatMessage.user("go"),), tools=(tool,)))
    receipt = reply.calls[0].receipt
    assert reply.calls[0].function.arguments == '{"about": {"a": 1}}'
    assert receipt is not None
    assert receipt.notes[-1] == 'duplicate key "a" in one object; the first value is used'


def test_budgets_share_a_grammar() -> None:
    engine, fake = make_engine(*[PARIS] * 2)
    for budget in (120, 480):
        engine.generate(replace(make_request(choice=ToolChoice.required()), max_tokens=budget))
    small, large = (writing.grammar for writing in fake.requests)
    assert small == large


FENCED = '```json\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n```'


def test_under_auto_a_call_in_another_spelling_is_read_and_its_receipt_says_so() -> None:
    reply = make_engine(FENCED)[0].generate(make_request())
    receipt = reply.calls[0].receipt
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert receipt is not None
    assert (receipt.how, receipt.enforced, receipt.drifted) == (How.VALIDATED, (), "hermes -> fenced_json")
    assert (reply.text, reply.finish, reply.diagnostics) == ("", FinishReason.TOOL_CALLS, ())


def test_with_reads_drift_off_a_call_in_another_spelling_is_text() -> None:
    reply = make_engine(FENCED, options=TextOptions(format="hermes", reads_drift=False))[0].generate(make_request())
    assert (reply.calls, reply.text) == ((), FENCED)


def test_an_answer_with_a_schema_is_never_read_as_a_call() -> None:
    schema = {"type": "object", "properties": {"name": {}, "arguments": {}}, "additionalProperties": False}
    text = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    reply = make_engine(text)[0].generate(replace(make_request(), response_schema=schema))
    assert (reply.calls, reply.text) == ((), text)


UNFIT = "Let me look.\n" + FENCED.replace("2", '"two"')


def test_a_call_in_another_spelling_that_does_not_fit_is_written_again_under_the_grammar() -> None:
    engine, fake = make_engine(UNFIT, PARIS)
    reply = engine.generate(make_request())
    receipt = reply.calls[0].receipt
    assert (reply.calls[0].arguments, reply.text.strip()) == ({"city": "Paris", "days": 2}, "Let me look.")
    assert receipt is not None
    assert (receipt.how, receipt.drifted) == (How.REPAIRED, "hermes -> fenced_json")
    assert fake.requests[1].grammar is not None
    assert not ByteMatcher(fake.requests[1].grammar.text).accepts("Let me look.")
    assert reply.finish is FinishReason.TOOL_CALLS


@pytest.mark.parametrize("repairs, texts", [(0, [UNFIT]), (1, [UNFIT, PARIS.replace("2", '"two"')])])
def test_if_it_does_not_fit_then_either_it_stays_the_text_that_it_was(repairs: int, texts: list[str]) -> None:
    options = TextOptions(format="hermes", repairs=repairs)
    reply = make_engine(*texts, options=options)[0].generate(make_request())
    assert (reply.calls, reply.incomplete, reply.text) == ((), (), UNFIT)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["looks_like_a_call"]
    assert reply.finish is FinishReason.STOP


def test_a_cut_off_reply_is_not_written_again() -> None:
    engine, fake = make_engine(UNFIT, PARIS, cut=True)
    assert engine.generate(make_request()).text == UNFIT
    assert len(fake.requests) == 1
