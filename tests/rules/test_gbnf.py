from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import ToolCall, ToolChoice, ToolDefinition, UnrenderableError
from ferrule.core.json_schema import JsonSchema
from ferrule.core.reply import Reply
from ferrule.formats import all_formats, parse, render
from ferrule.rules.gbnf import Gbnf, emit_gbnf
from ferrule.wire.rule_builder import bind
from laws.cuts import two_calls
from laws.replies import TOOLS, easy_text, own_markers, replies, texts
from rules.fitting import CHOICES, fit_reply, is_expressible
from rules.gbnf_acceptor import Acceptor
from sampling import sampled

FORMATS = all_formats()
MODE = JsonSchema.enum(["on", "off"])


def switch(name: str = "set_mode", mode: object = MODE) -> ToolDefinition:
    return (
        ToolDefinition.build(name)
        .parameter("mode", mode, required=True)  # type: ignore[arg-type]
        .parameter("note", JsonSchema.string())
        .done()
    )


@cache
def grammar(name: str, choice: str) -> Gbnf:
    return emit_gbnf(bind(FORMATS[name], TOOLS, CHOICES[choice]))


@cache
def acceptor(name: str, choice: str) -> Acceptor:
    return Acceptor(grammar(name, choice).text)


@cache
def switch_acceptor(name: str) -> Acceptor:
    return Acceptor(emit_gbnf(bind(FORMATS[name], [switch()], ToolChoice.required())).text)


def call_text(name: str, arguments: dict[str, object], tool: ToolDefinition) -> str:
    """One call in the format, rendered with a tool that it fits."""
    form = FORMATS[name]
    call = ToolCall.of(tool.name, arguments, id=form.ids.sample(tool.name, 0))
    return render(form, Reply((call,)), [tool])


def describe_refusal(admits: Acceptor, text: str) -> str:
    at = admits.accepted_length(text)
    return f"refused at {text[at : at + 40]!r} of {text!r}"


@pytest.mark.parametrize("name, choice", sampled("gbnf two calls", FORMATS, CHOICES, 1))
def test_reasoning_text_and_two_calls_are_admitted(name: str, choice: str) -> None:
    form = FORMATS[name]
    reply = fit_reply(form, CHOICES[choice], two_calls(form))
    assert reply is not None
    text = render(form, reply, TOOLS)
    assert acceptor(name, choice).accepts(text), describe_refusal(acceptor(name, choice), text)


@pytest.mark.parametrize("name, choice", sampled("gbnf rendered", FORMATS, CHOICES, 1))
@settings(max_examples=8)
@given(data=st.data())
def test_whatever_is_rendered_is_admitted(name: str, choice: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    reply = fit_reply(form, CHOICES[choice], data.draw(replies(form, easy_text | texts)))
    if reply is None or not is_expressible(form, reply):
        return
    try:
        text = render(form, reply, TOOLS)
    except UnrenderableError:
        return
    assert acceptor(name, choice).accepts(text), describe_refusal(acceptor(name, choice), text)


@pytest.mark.parametrize("name", FORMATS)
def test_after_a_trigger_the_smaller_grammar_takes_over_from_the_trigger_on(name: str) -> None:
    form, gbnf = FORMATS[name], grammar(name, "auto")
    assert (gbnf.triggered is None) == (not gbnf.triggers)
    if gbnf.triggered is None:
        return
    text = render(form, Reply(two_calls(form).calls), TOOLS)
    positions = [text.find(trigger) for trigger in gbnf.triggers if trigger in text]
    assert positions, f"none of {gbnf.triggers} in {text!r}"
    admits = Acceptor(gbnf.triggered)
    assert admits.accepts(text[min(positions) :]), describe_refusal(admits, text[min(positions) :])


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_that_fits_is_admitted_and_nothing_after_it(name: str) -> None:
    text = call_text(name, {"mode": "on", "note": "now"}, switch())
    assert switch_acceptor(name).accepts(text), describe_refusal(switch_acceptor(name), text)
    for more in ("x", " ", "\n\nDone.", "}"):
        assert not switch_acceptor(name).accepts(text + more)


@pytest.mark.parametrize("name", FORMATS)
def test_a_value_that_holds_what_closes_the_call_is_refused(name: str) -> None:
    text = call_text(name, {"mode": "on", "note": "PLACE"}, switch())
    before, _, closer = text.partition("PLACE")
    assert not switch_acceptor(name).accepts(f"{before}a{closer}b{closer}")


@pytest.mark.parametrize("name", FORMATS)
def test_a_marker_in_a_value_is_read_as_written_or_refused(name: str) -> None:
    text = call_text(name, {"mode": "on", "note": "PLACE"}, switch())
    for marker in (*sorted(own_markers(FORMATS[name])), '"', "'", "\\", "\n"):
        hard = text.replace("PLACE", f"a{marker}b")
        if switch_acceptor(name).accepts(hard):
            (call,) = parse(FORMATS[name], hard, [switch()]).parts
            assert isinstance(call, ToolCall)
            assert call.complete
            assert call.arguments["note"] in (f"a{marker}b", f"a{marker}b".replace("\\b", "\b"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_tool_that_was_not_offered_is_refused(name: str) -> None:
    for other in ("set_mod", "set_modes", "get_mode"):
        assert not switch_acceptor(name).accepts(call_text(name, {"mode": "on", "note": "now"}, switch(other)))


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_without_a_required_argument_is_refused(name: str) -> None:
    assert not switch_acceptor(name).accepts(call_text(name, {"note": "now"}, switch()))


@pytest.mark.parametrize("name", FORMATS)
def test_a_number_or_another_word_in_place_of_an_enum_is_refused(name: str) -> None:
    number, word = switch(mode=JsonSchema.integer()), switch(mode=JsonSchema.string())
    assert not switch_acceptor(name).accepts(call_text(name, {"mode": 3, "note": "now"}, number))
    assert not switch_acceptor(name).accepts(call_text(name, {"mode": "onn", "note": "now"}, word))


@pytest.mark.parametrize("name", FORMATS)
def test_a_required_call_is_not_answered_with_text(name: str) -> None:
    assert not acceptor(name, "required").accepts("It is sunny.")
    assert not acceptor(name, "required").accepts("")
