"""The family is found from the marks in a chat template, or the template is refused with a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import FormatConflictError, UnknownFormatError, formats, get_format, register
from ferrule.errors import TemplateError
from ferrule.wire import registry
from ferrule.wire.detection import How, detect

FORMATS = formats()
MARKED = sorted(name for name, form in FORMATS.items() if form.marks)
PLAIN = "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


def told(name: str) -> str:
    """The smallest template that holds a format's marks."""
    return "{% if tools %}{% raw %}" + "\n".join(FORMATS[name].marks) + "{% endraw %}{% endif %}" + PLAIN


@pytest.mark.parametrize("name", MARKED)
def test_a_template_with_a_formats_marks_is_of_that_format_or_of_one_that_beats_it(name: str) -> None:
    found = detect(told(name))
    assert found.how is How.MARKS
    assert found.format.name == name or name in found.beaten
    assert set(found.marks) == set(found.format.marks)
    assert all(repr(mark) in found.told for mark in found.marks)


@pytest.mark.parametrize("name", sorted(set(MARKED) - {"hermes_strict", "llama3_python_tag"}))
def test_every_format_can_be_found_but_those_that_share_a_template_with_another(name: str) -> None:
    assert detect(told(name)).format.name == name


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_beats_one_that_beats_it(name: str) -> None:
    assert not any(name in FORMATS[other].beats for other in FORMATS[name].beats)


@given(st.text(alphabet="abc {}<>|\n", max_size=60))
def test_any_text_without_tools_gets_the_generic_format_and_it_is_said_why(text: str) -> None:
    source = "{% raw %}" + text + "{% endraw %}" + PLAIN
    found = detect(source)
    assert (found.format.name, found.how, found.marks) == ("generic_xml", How.NO_TOOLS, ())
    assert "knows nothing of tools" in found.told


@pytest.mark.parametrize(
    "source",
    [
        "{% if tools %}<mystery>{{ tools | tojson }}</mystery>{% endif %}",
        "{% for m in messages %}{% for c in m.tool_calls %}<mystery>{% endfor %}{% endfor %}",
        "{% for m in messages %}{{ m['tool_calls'] }}{% endfor %}",
        "{{ functions }}",
    ],
)
def test_tools_that_no_format_knows_are_refused_with_a_reason(source: str) -> None:
    with pytest.raises(UnknownFormatError, match="marks of no known format") as refusal:
        detect(source)
    assert "by hand" in refusal.value.hint


def test_a_word_that_is_only_printed_makes_no_tools() -> None:
    assert detect("I have no tools and make no tool_calls." + PLAIN).how is How.NO_TOOLS


@pytest.mark.usefixtures("clean_registry")
def test_two_formats_with_the_same_marks_are_a_conflict_that_names_both() -> None:
    for name in ("acme_one", "acme_two"):
        register(replace(get_format("hermes"), name=name, about=name, marks=("<acme>",), beats=()))
    with pytest.raises(FormatConflictError, match="acme_one and acme_two") as refusal:
        detect("<acme>{{ tools }}")
    assert refusal.value.hint


@pytest.mark.usefixtures("clean_registry")
def test_beating_settles_it_and_beating_each_other_does_not() -> None:
    register(replace(get_format("hermes"), name="acme_one", about="1", marks=("<acme>",), beats=()))
    register(replace(get_format("hermes"), name="acme_two", about="2", marks=("<acme>",), beats=("acme_one",)))
    found = detect("<acme>{{ tools }}")
    assert (found.format.name, found.beaten) == ("acme_two", ("acme_one",))
    assert "beats acme_one" in found.told
    registry._registered["acme_one"] = replace(get_format("acme_one"), beats=("acme_two",))
    with pytest.raises(FormatConflictError, match="acme_one and acme_two"):
        detect("<acme>{{ tools }}")


def test_a_mark_may_stand_in_a_string_literal_with_its_escapes() -> None:
    source = r"""{% if tools %}{{ "<arg_key>k</arg_key>\n<arg_value>\"v\"</arg_value>" }}{% endif %}"""
    assert detect(source).format.name == "glm45"


def test_a_broken_template_without_marks_is_said_to_be_broken() -> None:
    with pytest.raises(TemplateError, match="cannot be read"):
        detect("{% if tools %}")
