"""A template is untrusted code: whatever it does, it stops within counted limits and cannot leave the sandbox."""

from __future__ import annotations

import tracemalloc
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import TemplateError
from ferrule.wire.template.budget import Budget, TemplateLimits
from ferrule.wire.template.chat_template import ChatTemplate

SMALL = TemplateLimits(steps=5_000, characters=2_000_000, output=50_000, value=50_000, range=1_000)
MOST_BYTES = 40_000_000

ESCAPES = (
    "{{ ''.__class__.__mro__ }}",
    "{{ ''['__class__'].__mro__ }}",
    "{{ [] | map(attribute='__class__') | list }}{{ ['a'] | map(attribute='__class__.__mro__') | first }}",
    "{{ cycler.__init__.__globals__.os.popen('id') }}",
    "{{ lipsum.__globals__['os'] }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ raise_exception.__globals__.x }}",
    "{{ strftime_now.__class__.__init__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}{{ self.x }}",
    "{% for i in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m.__call__.__globals__ }}",
    "{{ '{0.__class__.__mro__}'.format('') }}",
    "{{ '{a[__class__]}'.format_map({'a': 1}) }}",
    "{{ '' | attr('__class__') }}",
    "{{ dict.mro() }}",
    "{{ dict.fromkeys('ab') }}",
    "{{ 'a'.encode('idna') }}",
    "{{ (1).to_bytes(9, 'big') }}",
    "{{ 'a'() }}",
    "{% include 'secret' %}",
    "{% import 'os' as os %}",
    "{% extends 'x' %}",
    "{% block a %}{% endblock %}",
    "{% autoescape true %}{{ 'a' }}{% endautoescape %}",
    "{{ namespace() }}",
    "{{ dict }}",
)
GROWING = "{% set ns = namespace(x=START) %}{% for i in range(60) %}{% set ns.x = STEP %}{% endfor %}{{ ns.x }}"
GREEDY = {
    "nested loops": "{% for a in range(999) %}{% for b in range(999) %}{% endfor %}{% endfor %}",
    "a loop that keeps nothing": "{% for a in range(999) if false %}{% endfor %}" * 9,
    "a recursive loop": "{% for a in [[[]]] recursive %}{{ loop([[1]]) }}{% endfor %}",
    "a macro without end": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "macros that call macros": "{% macro a() %}{% for i in range(99) %}{{ b() }}{% endfor %}{% endmacro %}"
    "{% macro b() %}{% for i in range(99) %}x{% endfor %}{% endmacro %}{{ a() }}",
    "a long range": "{% for i in range(10 ** 12) %}{% endfor %}",
    "a multiplied text": "{{ 'a' * 1000000000 }}",
    "a multiplied text from the right": "{{ 1000000000 * 'a' }}",
    "a multiplied list": "{% set x = [0] * 1000000000 %}",
    "a text that doubles": GROWING.replace("START", "'ab'").replace("STEP", "ns.x ~ ns.x"),
    "a sum that doubles": GROWING.replace("START", "'ab'").replace("STEP", "ns.x + ns.x"),
    "a list that holds itself twice": GROWING.replace("START", "[]").replace("STEP", "[ns.x, ns.x]"),
    "a mapping that holds itself twice": GROWING.replace("START", "{}").replace("STEP", "{'a': ns.x, 'b': ns.x}"),
    "a tuple that is compared": GROWING.replace("START", "()").replace("STEP", "(ns.x, ns.x)") + "{{ ns.x == ns.x }}",
    "a number that squares": GROWING.replace("START", "3").replace("STEP", "ns.x * ns.x"),
    "a power": "{{ 9 ** 99999999 }}",
    "a long number": "{{ 0x" + "f" * 9_000 + " }}",
    "a wide percent": "{{ '%999999999d' % 1 }}",
    "a wide percent of a name": "{{ '%(a(b))999999999d' % {'a(b)': 1} }}",
    "a starred percent": "{{ '%*d' % (999999999, 1) }}",
    "many percents": "{% set a = 'x' * 9999 %}{{ ('%(a)s' * 999) % {'a': a} }}",
    "a wide format": "{{ '{:999999999}'.format(1) }}",
    "a filter of formats": "{{ '%999999999s' | format('a') }}",
    "center": "{{ 'a' | center(999999999) }}",
    "ljust": "{{ 'a'.ljust(999999999) }}",
    "zfill": "{{ 'a'.zfill(999999999) }}",
    "expandtabs": "{{ '\t'.expandtabs(999999999) }}",
    "a block through a filter": "{% filter center(999999999) %}x{% endfilter %}",
    "a replacement": "{{ ('a' * 9999) | replace('a', 'b' * 9999) }}",
    "a replacement of nothing": "{{ ('a' * 9999).replace('', 'b' * 9999) }}",
    "a join": "{{ range(999) | join('x' * 9999) }}",
    "a join by a method": "{{ ('x' * 9999).join(['1'] * 999) }}",
    "an indent": "{{ ('\n' * 9999) | indent(999) }}",
    "an indent of JSON": "{{ [1] | tojson(indent=999999999) }}",
    "a deep JSON": "{% set ns = namespace(x=[]) %}{% for i in range(900) %}{% set ns.x = [ns.x] %}{% endfor %}"
    "{{ ns.x | tojson(indent=16) }}",
    "digits": "{{ 1.5 | round(999999999) }}",
    "a list that grows while it is walked": "{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}",
    "a list in itself": "{% set l = [1] %}{% set _ = l.append(l) %}{{ l }}",
    "a list changed behind its holder": "{% set l = [] %}{% set m = [l, l] %}{% set _ = l.append('x' * 999) %}",
    "slices": "{% set s = 'a' * 49999 %}{% for i in range(999) %}{% set t = s[1:] %}{% endfor %}",
    "searches": "{% set s = 'a' * 49999 %}{% for i in range(999) %}{% if 'b' in s %}{% endif %}{% endfor %}",
    "searches by a test": "{% set s = 'a' * 49999 %}{% for i in range(999) %}{{ 'b' is in s }}{% endfor %}",
    "searches by a method": "{% set s = 'a' * 49999 %}{% for i in range(999) %}{{ s.count('b') }}{% endfor %}",
    "stripping": "{{ ('a' * 9999).strip('b' * 9999 ~ 'a') }}",
    "sorting": "{% for i in range(999) %}{% set x = range(999) | sort %}{% endfor %}",
    "mapping": "{% for i in range(999) %}{% set x = range(999) | map('string') | list %}{% endfor %}",
    "mapping to something wide": "{{ range(999) | map('center', 9999) | list }}",
    "splitting": "{{ ('a ' * 20000).split() }}",
    "text as a list": "{{ ('a' * 49999) | list }}",
    "a date": "{{ strftime_now('%999999999d') }}",
    "output": "{% for i in range(999) %}" + "x" * 999 + "{% endfor %}",
    "output into a block": "{% set x %}{% for i in range(999) %}" + "x" * 999 + "{% endfor %}{% endset %}",
    "a tuple as a key": "{{ {(1, 2): 3} }}",
}
UNREADABLE = {
    "parentheses": "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "blocks": "{% if 1 %}" * 3_000 + "{% endif %}" * 3_000,
    "loops in loops": "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
    "a long sum": "{{ " + " + ".join(["1"] * 2_000) + " }}",
    "sheer length": "x" * 300_000,
}
PIECES = st.sampled_from(
    [
        *("{% set x = x ~ x %}", "{% set x = x + x %}", "{% set x = [x, x] %}", "{% set x = {'a': x} %}", "{{ x }}"),
        *("{% set x = x * 99 %}", "{% set x = x | string %}", "{% set x = x | tojson %}", "{% set x = x[1:] %}"),
        *("{% set x = x | list %}", "{% if x == x %}y{% endif %}", "{% set x = '%s%s' % (x, x) %}", "{{ x | length }}"),
        *("{% set x = x | join(x) %}", "{% set x = x | replace('a', x) %}", "{% set x = x.split('a') %}", "{{ f(x) }}"),
    ]
)


@given(st.lists(PIECES, max_size=12), st.integers(0, 3))
def test_whatever_is_put_together_it_stays_within_its_limits(pieces: list[str], loops: int) -> None:
    body = "".join(pieces)
    macro = "{% macro f(x) %}" + body + "{% endmacro %}"
    source = macro + "{% set x = 'ab' %}" + "{% for i in range(30) %}" * loops + body + "{% endfor %}" * loops
    _run(source)


@pytest.mark.parametrize("source", GREEDY.values(), ids=GREEDY.keys())
def test_a_greedy_template_is_stopped_before_it_has_what_it_wants(source: str) -> None:
    tracemalloc.start()
    try:
        assert _run(source) is None
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("source", ESCAPES)
def test_nothing_outside_the_sandbox_is_reached_or_shown(source: str) -> None:
    assert not _run(source)


@pytest.mark.parametrize("source", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_source_that_is_too_long_or_too_deep_is_refused_unread(source: str) -> None:
    with pytest.raises(TemplateError) as refusal:
        ChatTemplate(source)
    assert refusal.value.code == "bad_template"


def test_output_stops_while_it_is_written_and_not_after() -> None:
    template = ChatTemplate("{% for i in range(999) %}" + "x" * 100 + "{% endfor %}", limits=SMALL)
    budget = Budget(SMALL)
    with pytest.raises(TemplateError, match="writes more than 50000 characters"):
        template.render([], budget=budget)
    assert budget.output <= SMALL.output + 100
    assert budget.steps < 510


@given(st.recursive(st.text(max_size=9), lambda inner: st.lists(inner, max_size=4), max_leaves=20), st.integers(0, 5))
def test_a_value_contained_twice_counts_twice(value: object, doublings: int) -> None:
    budget = Budget(TemplateLimits())
    size = budget.size(value)
    for _ in range(doublings):
        value = [value, value]
        assert budget.size(value) > 2 * size
        size = budget.size(value)


def _run(source: str) -> str | None:
    """The output, or None if it was stopped. No counter exceeds its limit by more than the step that broke it."""
    budget = Budget(SMALL)
    text, code = None, "bad_template"
    try:
        text = ChatTemplate(source, limits=SMALL).render([{"role": "user"}], budget=budget, now=date(2025, 1, 1))
    except TemplateError as refusal:
        code = refusal.code
    assert code == "bad_template"
    assert budget.steps <= SMALL.steps + 1
    assert budget.characters <= SMALL.characters + 20 * (SMALL.value + 1)
    assert text is None or len(text) <= budget.output <= SMALL.output
    return text
