"""Any text generator and a format make an engine: prompt, rule, parser and seal work together."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tools import PING, PLAIN_TEMPLATE, TAGS, WEATHER, asked
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
from ferrule.core.receipt import How
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import UnsupportedError
from ferrule.rules.matcher import ByteMatcher

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
FACTS = ModelFacts(template=PLAIN_TEMPLATE)
HERMES = TextOptions(format="hermes")


def engine(
    *texts: str, options: TextOptions = HERMES, size: int = 3, cut: bool = False
) -> tuple[TextEngine, FakeGenerator]:
    fake = FakeGenerator(texts, FACTS, size=size, is_cut_off=cut)
    return TextEngine(fake, options), fake


def test_a_call_comes_out_with_a_receipt_that_says_what_held_it() -> None:
    reply = engine(PARIS)[0].generate(asked())
    receipt = reply.calls[0].receipt
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert receipt is not None
    assert (receipt.how, receipt.path, receipt.format) == (How.GRAMMAR, "completion+lark", "hermes")
    assert {"type", "required", "minimum"} <= {*receipt.enforced}
    assert reply.finish is FinishReason.TOOL_CALLS


@given(st.integers(1, 40))
def test_the_size_of_the_pieces_does_not_change_the_reply(size: int) -> None:
    text = f"One moment.\n{PARIS}\n{PARIS}"
    reply, by_character = (engine(text, size=n)[0].generate(asked()) for n in (size, 1))
    assert [call.function for call in reply.calls] == [call.function for call in by_character.calls]
    assert (reply.text, reply.finish, reply.diagnostics) == (by_character.text, FinishReason.TOOL_CALLS, ())


def test_the_grammar_that_the_backend_gets_admits_the_call_and_no_other_tool() -> None:
    made, fake = engine(PARIS)
    made.generate(asked(choice=ToolChoice.required()))
    grammar = fake.asked[0].grammar
    assert grammar is not None
    matcher = ByteMatcher(grammar.text)
    assert matcher.accepts(PARIS)
    assert not matcher.accepts(PARIS.replace("get_weather", "get_wealth"))
    assert not matcher.accepts("It is sunny.")


def test_what_the_grammar_cannot_say_is_checked_and_a_call_that_fails_is_not_handed_on() -> None:
    text = '<tool_call>\n{"name": "set_tags", "arguments": {"tags": ["a", "a"]}}\n</tool_call>'
    reply = engine(text)[0].generate(asked(tools=(TAGS,)))
    assert reply.calls == ()
    receipt = reply.incomplete[0].receipt
    assert receipt is not None
    assert receipt.how is How.REFUSED
    assert "uniqueItems" in receipt.checked
    assert reply.diagnostics[0].code == "invalid_arguments"
    assert "/tags" in reply.diagnostics[0].message


def test_without_a_grammar_a_name_that_was_not_offered_is_refused() -> None:
    options = TextOptions(format="hermes", is_constrained=False)
    reply = engine(PARIS, options=options)[0].generate(asked(tools=(PING,)))
    assert reply.calls == ()
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["not_offered"]


def test_without_a_grammar_every_keyword_is_checked_after() -> None:
    options = TextOptions(format="hermes", is_constrained=False)
    receipt = engine(PARIS, options=options)[0].generate(asked()).calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.enforced) == (How.VALIDATED, ())
    assert "minimum" in receipt.checked


def test_without_a_grammar_a_required_call_is_refused_before_anything_is_generated() -> None:
    made, fake = engine(PARIS, options=TextOptions(format="hermes", is_constrained=False))
    with pytest.raises(UnsupportedError):
        made.generate(asked(choice=ToolChoice.required()))
    assert fake.asked == []


def test_a_choice_that_names_no_offered_tool_is_refused_before_anything_is_generated() -> None:
    made, fake = engine(PARIS)
    with pytest.raises(DefinitionError):
        made.generate(asked(choice=ToolChoice.one("nothing")))
    assert fake.asked == []


def test_a_schema_that_is_not_admitted_names_its_tool() -> None:
    bad = ToolDefinition("far", "", {"type": "object", "properties": {"a": {"$ref": "http://example.com/x"}}})
    with pytest.raises(SchemaError, match="far"):
        engine(PARIS)[0].generate(asked(tools=(bad,)))


def test_a_reply_that_ran_out_of_tokens_says_so_and_its_broken_call_is_not_handed_on() -> None:
    reply = engine(PARIS[:60], cut=True)[0].generate(asked())
    assert reply.finish is FinishReason.LENGTH
    assert reply.calls == ()
    assert len(reply.incomplete) == 1


def test_deltas_arrive_before_the_call_is_over_and_are_a_prefix_of_its_arguments() -> None:
    async def collected() -> list[object]:
        return [event async for event in engine(PARIS, size=1)[0].stream(asked())]

    events = asyncio.run(collected())
    first = next(n for n, event in enumerate(events) if isinstance(event, ArgumentsDelta))
    last = next(n for n, event in enumerate(events) if isinstance(event, CallEnd))
    assert first < last - 5
    assert isinstance(events[-1], Finish)


def test_closing_the_stream_stops_the_backend() -> None:
    async def stopped() -> FakeGenerator:
        made, fake = engine(PARIS * 50, size=1)
        events = made.stream(asked())
        async for event in events:
            if isinstance(event, ArgumentsDelta):
                break
        await events.aclose()
        return fake

    fake = asyncio.run(stopped())
    assert fake.is_closed
    assert fake.written < len(PARIS)


def test_an_answer_that_must_fit_a_schema_and_does_not_is_reported() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}, "required": ["a"]}
    request = ToolCallRequest(messages=(ChatMessage.user("x"),), response_schema=schema)
    reply = engine('{"a": [1, 1]}')[0].generate(request)
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["invalid_answer"]


def test_a_template_without_tools_gets_them_explained_and_the_receipt_says_so() -> None:
    made, fake = engine(PARIS)
    receipt = made.generate(asked()).calls[0].receipt
    assert receipt is not None
    assert any("explained in the prompt" in note for note in receipt.notes)
    assert "get_weather" in fake.asked[0].prompt


def test_results_come_back_as_a_users_message_where_the_template_has_no_tool_role() -> None:
    made, fake = engine("It is sunny.")
    call = ToolCall.of("get_weather", {"city": "Paris"}, id="c1")
    history = (
        ChatMessage.user("How is Paris?"),
        ChatMessage.assistant(tool_calls=[call]),
        ChatMessage.tool("c1", "sunny", "get_weather"),
    )
    reply = made.generate(ToolCallRequest(messages=history, tools=(WEATHER,)))
    assert reply.text == "It is sunny."
    assert "<|im_start|>user\n<tool_response>\nsunny" in fake.asked[0].prompt


def test_without_a_named_format_the_template_decides() -> None:
    text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
    made, _ = engine(text, options=TextOptions())
    assert asyncio.run(made.format()).name == "generic_xml"


def test_a_string_that_reached_its_bound_is_told_in_the_receipt() -> None:
    long = PARIS.replace("Paris", "x" * 5_000)
    receipt = engine(long)[0].generate(asked()).calls[0].receipt
    assert receipt is not None
    assert any("as long as the rule lets it be" in note for note in receipt.notes)


def test_a_backend_that_lost_its_grammar_is_found_out() -> None:
    reply = engine("I would rather talk.")[0].generate(asked(choice=ToolChoice.required()))
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["grammar_lost", "choice_not_honoured"]


def test_a_target_that_the_backend_is_not_held_by_is_refused() -> None:
    made, fake = engine(PARIS, options=TextOptions(format="hermes", target="gbnf"))
    with pytest.raises(UnsupportedError, match="gbnf"):
        made.generate(asked())
    assert fake.asked == []


def test_an_engine_that_lets_go_of_its_grammar_is_found_out_and_nothing_is_claimed_of_it() -> None:
    loose = PARIS.replace('"days"', ' "days"')
    reply = engine(loose)[0].generate(asked())
    receipt = reply.calls[0].receipt
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert receipt is not None
    assert (receipt.how, receipt.enforced) == (How.VALIDATED, ())
    assert [told.code for told in reply.diagnostics] == ["grammar_lost"]
    assert "grammar" in receipt.notes[-1]


def test_a_name_that_comes_again_in_a_free_object_is_said_once_and_the_receipt_tells() -> None:
    tool = ToolDefinition("note", "", {"type": "object", "properties": {"about": {"type": "object"}}})
    text = '<tool_call>\n{"name": "note", "arguments": {"about": {"a": 1, "a": 2}}}\n</tool_call>'
    reply = engine(text)[0].generate(ToolCallRequest(messages=(ChatMessage.user("go"),), tools=(tool,)))
    receipt = reply.calls[0].receipt
    assert reply.calls[0].function.arguments == '{"about": {"a": 1}}'
    assert receipt is not None
    assert receipt.notes[-1] == '"a" came again in the same object; the first stands'


def test_a_rule_for_one_budget_does_not_serve_another() -> None:
    made, fake = engine(*[PARIS] * 2)
    for budget in (120, 480):
        made.generate(replace(asked(choice=ToolChoice.required()), max_tokens=budget))
    small, large = (writing.grammar for writing in fake.asked)
    assert small != large
