"""Law 3: the rule admits every rendered reply that the choice allows, by llguidance's own matcher."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import llguidance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Reasoning, Reply, Text, ToolCall, ToolChoice, UnrenderableError
from ferrule.core.json_text import dumps
from ferrule.formats import all_formats, render
from ferrule.rules.lark import emit_lark
from ferrule.wire.format import Format
from ferrule.wire.renderer import arrange_parts
from ferrule.wire.rule_builder import bind
from laws.replies import TOOLS, own_markers, replies
from laws.test_rule_protects import CHOICES
from sampling import sampled

FORMATS = all_formats()
ORDER = {tool.name: list(tool.properties) for tool in TOOLS}


def in_schema_order(call: ToolCall) -> ToolCall:
    """The call with its arguments in the schema's order, which rules require by default."""
    arguments = call.arguments
    ordered = {name: arguments[name] for name in ORDER[call.name] if name in arguments}
    return replace(call, function=replace(call.function, arguments=dumps(ordered)))


def fits(call: ToolCall) -> bool:
    return call.name != "get_weather" or "city" in call.arguments


def allowed_reply(form: Format, choice: str, reply: Reply) -> Reply | None:
    """The reply reduced to what the choice allows, or None if nothing remains."""
    names = {tool.name for tool in CHOICES[choice].select_tools(TOOLS)}
    calls = [in_schema_order(call) for call in reply.calls if call.name in names and fits(call)]
    thoughts = [part for part in reply.parts if isinstance(part, Reasoning)][:1]
    texts = [part for part in reply.parts if isinstance(part, Text)][:1]
    if choice in ("required", "one"):
        texts = []
        if not calls:
            return None
    if calls and form.calls.only_offered:
        texts = []
    if not texts and not calls:
        return None  # Reasoning alone is not an answer.
    calls = [replace(call, id=form.ids.sample(call.name, number)) for number, call in enumerate(calls)]
    return arrange_parts(form, Reply((*thoughts, *texts, *calls)))


def holds_a_marker(form: Format, reply: Reply) -> bool:
    """Whether free text contains broken markup: it can be rendered, but a rule does not allow it."""
    free = [part.text for part in reply.parts if not isinstance(part, ToolCall)]
    begins = form.calls.only_offered and reply.text[:1] in ("[", "{", "`")
    return begins or any(marker in text for marker in own_markers(form) for text in free)


def writable_text(form: Format, choice: str, reply: Reply) -> str | None:
    """The text of a reply as far as a model may write it under the choice; None if nothing of it can be written."""
    reply_allowed = allowed_reply(form, choice, reply)
    if reply_allowed is None or not reply_allowed.parts or holds_a_marker(form, reply_allowed):
        return None
    try:
        text = render(form, reply_allowed, TOOLS)
    except UnrenderableError:
        return None
    # llguidance does not allow this character in JSON strings.
    return None if "\x7f" in text else text


@cache
def plain_matcher(name: str, choice: str) -> llguidance.LLMatcher:
    grammar = emit_lark(bind(FORMATS[name], TOOLS, CHOICES[choice]))
    return llguidance.LLMatcher(llguidance.LLTokenizer("byte"), llguidance.LLMatcher.grammar_from_lark(grammar))


@pytest.mark.parametrize("name, choice", sampled("rule admits", FORMATS, CHOICES, 2))
@settings(max_examples=8)
@given(data=st.data())
def test_the_rule_admits_what_is_rendered(name: str, choice: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    text = writable_text(form, choice, data.draw(replies(form)))
    if text is None:
        return
    matcher = plain_matcher(name, choice).deep_copy()
    data_bytes = text.encode()
    taken = matcher.try_consume_tokens(list(data_bytes))
    rest = data_bytes[taken:].decode("utf-8", "replace")
    assert taken == len(data_bytes), f"refused at {rest[:60]!r} of {text!r}"
    assert matcher.is_accepting(), f"not accepted as finished: {text!r}"


def test_a_choice_that_names_no_offered_tool_raises_before_anything_is_generated() -> None:
    with pytest.raises(Exception, match="names unknown tools"):
        ToolChoice.one("nothing").select_tools(TOOLS)
