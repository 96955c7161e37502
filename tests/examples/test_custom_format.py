from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule import Reply, UnrenderableError, fold
from ferrule.formats import Parser, get_format, parse, render
from laws.cuts import essence
from laws.replies import TOOLS, easy_text, replies

Load = Callable[[str], dict[str, Any]]
Run = Callable[..., str]
# The fixture returns a function without state, so Hypothesis examples may share it.
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def same(one: Reply, other: Reply) -> bool:
    return [call.function for call in one.calls] == [call.function for call in other.calls] and one.text == other.text


@SHARED
@given(st.data())
def test_the_made_up_format_reads_back_what_it_writes_however_it_is_cut(load: Load, data: st.DataObject) -> None:
    form = load("custom_format.py")["FORMAT"]
    reply = data.draw(replies(form))
    try:
        text = render(form, reply, TOOLS)
    except UnrenderableError:
        return  # one of the format's markers in a value; the next test shows that nothing else is refused
    read = parse(form, text, TOOLS)
    assert same(read, reply)
    parser = Parser(form, TOOLS)
    place = data.draw(st.integers(0, len(text)))
    cut = fold([*parser.feed(text[:place]), *parser.feed(text[place:]), *parser.close()])
    assert essence(cut) == essence(read)


@SHARED
@given(st.data())
def test_it_refuses_nothing_that_holds_no_marker(load: Load, data: st.DataObject) -> None:
    form = load("custom_format.py")["FORMAT"]
    reply = data.draw(replies(form, easy_text))
    assert same(parse(form, render(form, reply, TOOLS), TOOLS), reply)


def test_it_reads_its_examples_and_prints_its_rule(run: Run, load: Load) -> None:
    example = load("custom_format.py")
    printed = run("custom_format.py", [Reply.of(example["PARIS"])])
    for visible in example["EXAMPLES"]:
        assert f"parsed: {visible.text!r}" in printed
    assert 'start: ("@@call get_weather\\n"' in printed
    assert f"\naccepted: {example['PARIS_TEXT']!r}" in printed
    assert printed.count("stopped after") == 2
    # The engine uses the format.
    assert "fake:made up?format=lantern calls: get_weather {'city': 'Paris', 'days': 2}" in printed
    assert get_format("lantern").about == example["FORMAT"].about
