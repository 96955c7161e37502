"""A chat template renders what its authors meant: as in plain Jinja, but without HTML escapes and without a clock."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ferrule.core.json_text import dumps
from ferrule.errors import TemplateError
from ferrule.wire.template.budget import Budget, TemplateLimits
from ferrule.wire.template.chat_template import ChatTemplate, identifiers_of

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
TEXTS = st.text(alphabet=st.sampled_from("ab \n\t<>&'\"{}%é東|"), max_size=30)
# Expressions over a text `a`, a text `b` and a list `c`: what they give here must be what they give in plain Jinja.
EXPRESSIONS = (
    *("a ~ b", "a + b", "a * 3", "a[1:]", "a[::-1]", "a[:-1] ~ 1", "a == b", "a in b", "a|trim", "a|upper|lower"),
    *("a|title", "a|capitalize", "a|replace('a', b)", "a.replace('a', 'xy')", "a|indent(3)", "a|indent(2, true)"),
    *("a.split('a')", "a.split()", "a.split('b', 1)[0]", "a.rsplit(' ', 1)", "a.splitlines()", "a.strip()"),
    *("a.lstrip('ab')", "a.rstrip()", "a.startswith('a')", "a.endswith(b)", "a|length", "a.find('b')", "a|list"),
    *("a|center(20)", "a.ljust(9) ~ '.'", "a.zfill(6)", "'%s-%5s' % (a, b)", "'{} {}'.format(a, b)", "a|reverse"),
    *("c|join(', ')", "b.join(c)", "c|first", "c|last", "c|sort", "c|unique|list", "c|map('upper')|list", "c|min"),
    *("c + [a]", "c * 2", "c[1:]|length", "c|select('in', ['a', b])|list", "c|reject('equalto', a)|list", "c|max"),
    *("{'k': a}.items()|list", "{'k': a}|items|list", "{'y': a, 'x': b}|dictsort", "{'k': a}.get('k')", "c|groupby(0)"),
    *("a is string", "c is sequence", "q is defined", "q|default(a)", "a or b", "1 if a else 2", "7 % 4", "2 ** 5"),
    *(
        "'12'|int + 1",
        "'1.5'|float",
        "-3|abs",
        "2.567|round(1)",
        "range(4)|list",
        "dict(k=a)",
        "(a, b)",
        "none",
        "true",
    ),
)
PLAIN = ImmutableSandboxedEnvironment()
BOTH_WAYS = {
    expression: (ChatTemplate(f"{{{{ {expression} }}}}"), PLAIN.from_string(f"{{{{ {expression} }}}}"))
    for expression in EXPRESSIONS
}


@given(VALUES)
def test_tojson_is_the_json_that_our_own_formats_write(value: Any) -> None:
    assert ChatTemplate("{{ v | tojson }}").render([], v=value) == dumps(value)


@given(VALUES, st.none() | st.integers(0, 4), st.sampled_from([None, (",", ":"), (", ", ": ")]), st.booleans())
def test_tojson_takes_what_json_dumps_takes(value: Any, indent: int | None, separators: Any, ascii: bool) -> None:
    source = "{{ v | tojson(indent=i, separators=s, ensure_ascii=e) }}"
    text = ChatTemplate(source).render([], v=value, i=indent, s=separators, e=ascii)
    assert text == json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii)


@given(st.text(), st.text())
def test_text_is_written_as_it_is(content: str, token: str) -> None:
    template = ChatTemplate("{{ bos_token }}{{ messages[0].content | safe }}{{ messages[0]['content'] }}", token)
    assert template.render([{"role": "user", "content": content}]) == token + content * 2


@given(TEXTS, TEXTS, st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=5))
def test_what_is_counted_means_what_it_means_in_plain_jinja(a: str, b: str, c: list[str]) -> None:
    for expression, (counted, plain) in BOTH_WAYS.items():
        assert counted.render([], a=a, b=b, c=c) == plain.render(a=a, b=b, c=c), expression


@given(st.lists(st.text(max_size=20), max_size=30))
def test_steps_grow_with_the_messages_and_are_the_same_every_time(contents: list[str]) -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.role ~ m.content }}{% endfor %}")
    messages = [{"role": "user", "content": content} for content in contents]
    counted = [Budget(template.limits) for _ in range(2)]
    for budget in counted:
        template.render(messages, budget=budget)
    assert counted[0].steps == counted[1].steps == 2 * len(contents)
    assert counted[0].output == sum(map(len, contents)) + 4 * len(contents)


def test_blocks_are_trimmed_as_chat_templates_expect() -> None:
    source = "{% for m in messages %}\n    {% if m.content %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\nend\n"
    assert ChatTemplate(source).render([{"content": "a"}, {"content": ""}, {"content": "b"}]) == "a\nb\nend"


def test_loops_can_break_and_generation_tags_are_ignored() -> None:
    source = "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}"
    source += "{% generation %}<{{ i }}>{% endgeneration %}{% endfor %}"
    assert ChatTemplate(source).render([]) == "<0><2>"


def test_the_date_is_the_callers_and_there_is_none_without_one() -> None:
    asking = ChatTemplate("{{ strftime_now('%d %B %Y') }}")
    assert asking.render([], now=date(2024, 7, 26)) == "26 July 2024"
    with pytest.raises(TemplateError, match="strftime_now") as refusal:
        asking.render([])
    assert "now" in refusal.value.hint
    careful = ChatTemplate("{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}then{% endif %}")
    assert careful.render([]) == "then"


def test_a_template_that_refuses_is_heard() -> None:
    with pytest.raises(TemplateError, match="roles must alternate") as refusal:
        ChatTemplate("{{ raise_exception('roles must alternate') }}").render([])
    assert (refusal.value.code, refusal.value.status) == ("bad_template", 400)
    assert refusal.value.hint


def test_variables_and_the_generation_prompt_reach_the_template() -> None:
    source = "{{ tools is none }} {{ enable_thinking }}{% if add_generation_prompt %} go{% endif %}"
    assert ChatTemplate(source).render([], enable_thinking=False) == "True False go"
    assert ChatTemplate(source).render([], [], add_generation_prompt=False, enable_thinking=1) == "False 1"


def test_lazy_filters_give_lists_which_can_be_printed() -> None:
    assert ChatTemplate("{{ [{'f': 1}] | map(attribute='f') | tojson }}").render([]) == "[1]"


def test_a_template_keeps_a_queue_in_a_list_of_its_own() -> None:
    source = "{% set q = namespace(ids=[]) %}{% for m in messages %}{% set _ = q.ids.append(m.content) %}{% endfor %}"
    source += "{{ q.ids.pop(0) }}{{ q.ids }}"
    assert ChatTemplate(source).render([{"content": "a"}, {"content": "b"}]) == "a['b']"


@pytest.mark.parametrize(
    "source",
    [
        "{% set _ = messages.append(1) %}",
        "{% set _ = messages.pop() %}",
        "{% set _ = messages[0].tags.append(1) %}",
        "{% set _ = (messages[0].tags | default([])).append(1) %}",
        "{% set _ = messages[0].update({'role': 'system'}) %}",
        "{% set _ = messages.clear() %}",
    ],
)
def test_what_the_caller_gave_is_never_changed(source: str) -> None:
    messages = [{"role": "user", "tags": ["a"]}]
    with pytest.raises(TemplateError):
        ChatTemplate(source).render(messages)
    assert messages == [{"role": "user", "tags": ["a"]}]


@pytest.mark.parametrize("source", ["{% if %}", "{{ a", "{% for x in y %}", "{{ 1 | no_such_filter }}", "{% frob %}"])
def test_a_broken_template_is_refused_when_it_is_read(source: str) -> None:
    with pytest.raises(TemplateError, match="cannot be parsed"):
        ChatTemplate(source)


def test_a_missing_variable_is_a_template_error_and_not_a_traceback_of_jinja() -> None:
    for source in ("{{ a.b.c }}", "{{ 1 + 'a' }}", "{{ [][3].x }}", "{{ 1 // 0 }}", "{{ nothing() }}"):
        with pytest.raises(TemplateError, match="the template fails"):
            ChatTemplate(source).render([])


def test_limits_are_the_callers_to_set() -> None:
    source = "{% for i in range(50) %}{{ i }}{% endfor %}"
    assert ChatTemplate(source).render([])
    with pytest.raises(TemplateError, match="more than 20 steps") as refusal:
        ChatTemplate(source, limits=TemplateLimits(steps=20)).render([])
    assert "Limits" in refusal.value.hint


@given(st.integers(0, 5_000))
def test_more_messages_may_use_more_and_never_less(count: int) -> None:
    limits, grown = TemplateLimits(), TemplateLimits().scale_to(count)
    assert grown.steps == limits.steps * max(1, (count + 199) // 200)
    assert (grown.value, grown.range, grown.source, grown.nesting) == (8_000_000, 100_000, 128 * 1024, 100)


def test_a_template_may_look_through_a_long_conversation_for_each_message_of_it() -> None:
    same = "{% if n == m %}{{ m.content }}{% endif %}"
    source = "{% for m in messages %}{% for n in messages %}" + same + "{% endfor %}{% endfor %}"
    messages = [{"role": "user", "content": f"{number:05}" * 100} for number in range(600)]
    assert ChatTemplate(source).render(messages) == "".join(message["content"] for message in messages)


def test_the_identifiers_of_a_template_are_those_of_its_code() -> None:
    words = identifiers_of("say tools {% for t in tools_list %}{{ t['name'] }}{{ t.function }}{% endfor %}")
    assert {"tools_list", "t", "name", "function"} <= words
    assert "tools" not in words
