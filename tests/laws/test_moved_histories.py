"""A conversation moves between models: what any family wrote, every family's format can write again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChatMessage, Reasoning, Text, ToolCall
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.formats import Format, all_formats, parse, render
from ferrule.wire.history import MARKUP, own_ids
from ferrule.wire.neutral_text import BREAK
from ferrule.wire.prompt import explained_conversation
from wire.weather import TOOLS

FORMATS = all_formats()
IDS = [
    *("call_abc123", "toolu_01A09q90qw90lq917835lq9", "fc_68af", "functions.get_weather:0", "0", "7", "abcdefg01"),
    *("abcdefgh01", "", "chatcmpl-tool-1f2e", "</tool_call>", 'a"b', "é", "call_abc123"),
]


def markup_of(form: Format) -> str:
    """A call as a model of this format writes it: markup, if it stands in text."""
    return render(form, Reply.of(ToolCall.of("get_weather", {"city": "Paris"}, id=form.ids.sample("get_weather", 0))))


MARKED = {name: markup_of(form) for name, form in FORMATS.items()}
texts = st.one_of(
    st.sampled_from(sorted(set(MARKED.values()))), st.text(max_size=20), st.sampled_from(["", "Ok.", "{"])
)
values = st.one_of(texts, st.integers(), st.booleans(), st.none(), st.lists(texts, max_size=2))
arguments = st.dictionaries(st.sampled_from(["city", "days", "other"]), values, max_size=3)
calls = st.tuples(st.sampled_from(["get_weather", "gone"]), st.sampled_from(IDS), arguments)


@st.composite
def histories(draw: st.DrawFn) -> list[ChatMessage]:
    messages = [ChatMessage.user("Compare.")]
    for _ in range(draw(st.integers(1, 3))):
        called = [ToolCall.of(name, given, id=id) for name, id, given in draw(st.lists(calls, min_size=1, max_size=3))]
        parts = (Reasoning(draw(texts)), Text(draw(texts)), *called, Text(draw(texts)))
        messages.append(ChatMessage(Role.ASSISTANT, draw(st.permutations(parts).map(tuple))))
        messages += [ChatMessage.tool(call.id, draw(texts), call.name) for call in called]
    return messages


@pytest.mark.parametrize("name", FORMATS)
@given(histories())
def test_a_history_of_any_family_renders_in_every_family(name: str, history: list[ChatMessage]) -> None:
    form = FORMATS[name]
    written = explained_conversation(form, history, TOOLS)
    assert {message.role for message in written.messages} <= {Role.SYSTEM, Role.USER, Role.ASSISTANT}
    assert explained_conversation(form, history, TOOLS) == written
    shorter = explained_conversation(form, history[:2], TOOLS)
    assert written.messages[: len(shorter.messages)] == shorter.messages


@pytest.mark.parametrize("name", FORMATS)
@given(histories())
def test_ids_have_the_familys_form_and_a_result_keeps_the_id_of_its_call(name: str, history: list[ChatMessage]) -> None:
    form = FORMATS[name]
    translated, _ = own_ids(form, history)
    before: dict[str, str] = {}
    for old, new in zip(history, translated, strict=True):
        for one, other in zip(old.tool_calls, new.tool_calls, strict=True):
            assert form.ids.fits(other.id, other.name)
            before[one.id] = other.id
        for one, other in zip(old.results, new.results, strict=True):
            assert other.tool_call_id == before[one.tool_call_id]
    assert own_ids(form, translated)[0] == translated


@pytest.mark.parametrize("name", FORMATS)
def test_distinct_foreign_ids_stay_distinct(name: str) -> None:
    form = FORMATS[name]
    called = [ToolCall.of("get_weather", {}, id=f"foreign-{number}") for number in range(200)]
    own = [form.ids.sample("get_weather", number) for number in range(3)]
    called += [ToolCall.of("get_weather", {}, id=id) for id in own]
    messages, _ = own_ids(form, [ChatMessage.assistant("", called)])
    assert len({call.id for call in messages[0].tool_calls}) == len(called)


@pytest.mark.parametrize("name", FORMATS)
def test_a_history_in_the_familys_own_form_is_not_changed(name: str) -> None:
    form = FORMATS[name]
    call = ToolCall.of("get_weather", {"city": "Paris"}, id=form.ids.sample("get_weather", 0))
    history = [
        ChatMessage.user("?"),
        ChatMessage.assistant("Wait.", [call]),
        ChatMessage.tool(call.id, "18", call.name),
    ]
    assert own_ids(form, history) == (tuple(history), ())
    assert explained_conversation(form, history, TOOLS).notes == ()


@pytest.mark.parametrize("name", FORMATS)
def test_markup_in_text_is_broken_visibly_and_is_no_call(name: str) -> None:
    form = FORMATS[name]
    call = ToolCall.of("get_weather", {"city": "Rome"}, id=form.ids.sample("get_weather", 0))
    history = [ChatMessage.user("?"), ChatMessage.assistant(f"I write {MARKED[name]} now.", [call])]
    written = explained_conversation(form, history, TOOLS)
    read = parse(form, written.messages[-1].content, TOOLS)
    assert [json.loads(one.function.arguments) for one in read.calls] == [{"city": "Rome"}]
    assert written.notes == (MARKUP,) or BREAK not in written.messages[-1].content
