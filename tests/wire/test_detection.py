"""Detection finds the format from the markers in a chat template, or refuses the template with a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import FormatConflictError, UnknownFormatError
from ferrule.errors import TemplateError
from ferrule.formats import all_formats, get_format, register
from ferrule.wire import registry
from ferrule.wire.detection import DetectionMethod, detect

FORMATS = all_formats()
MARKED = sorted(name for name, form in FORMATS.items() if form.markers)
PLAIN = "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


def smallest_template(name: str) -> str:
    """The smallest template that contains a format's markers."""
    return "{% if tools %}{% raw %}" + "\n".join(FORMATS[name].markers) + "{% endraw %}{% endif %}" + PLAIN


@pytest.mark.parametrize("name", MARKED)
def test_a_template_with_a_formats_markers_has_that_format_or_one_that_beats_it(name: str) -> None:
    detection = detect(smallest_template(name))
    assert detection.method is DetectionMethod.MARKERS
    assert detection.format.name == name or name in detection.beaten
    assert set(detection.markers) == set(detection.format.markers)
    assert all(repr(mark) in detection.evidence for mark in detection.markers)


@pytest.mark.parametrize("name", sorted(set(MARKED) - {"hermes_strict", "llama3_python_tag"}))
def test_every_format_can_be_found_but_those_that_share_a_template_with_another(name: str) -> None:
    assert detect(smallest_template(name)).format.name == name


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_beats_one_that_beats_it(name: str) -> None:
    assert not any(name in FORMATS[other].beats for other in FORMATS[name].beats)


@given(st.text(alphabet="abc {}<>|\n", max_size=60))
def test_any_text_without_tools_gets_the_generic_format_with_the_reason(text: str) -> None:
    source = "{% raw %}" + text + "{% endraw %}" + PLAIN
    detection = detect(source)
    assert (detection.format.name, detection.method, detection.markers) == ("generic_xml", DetectionMethod.NO_TOOLS, ())
    assert "has no tool support" in detection.evidence


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
    with pytest.raises(UnknownFormatError, match="markers of no known format") as refusal:
        detect(source)
    assert "explicitly" in refusal.value.hint


def test_a_word_that_is_only_printed_makes_no_tools() -> None:
    assert detect("I have no tools and make no tool_calls." + PLAIN).method is DetectionMethod.NO_TOOLS


@pytest.mark.usefixtures("clean_registry")
def test_two_formats_with_the_same_markers_are_a_conflict_that_names_both() -> None:
    for name in ("acme_one", "acme_two"):
        register(replace(get_format("hermes"), name=name, about=name, markers=("<acme>",), beats=()))
    with pytest.raises(FormatConflictError, match="acme_one and acme_two") as refusal:
        detect("<acme>{{ tools }}")
    assert refusal.value.hint


@pytest.mark.usefixtures("clean_registry")
def test_beating_settles_it_and_beating_each_other_does_not() -> None:
    register(replace(get_format("hermes"), name="acme_one", about="1", markers=("<acme>",), beats=()))
    register(replace(get_format("hermes"), name="acme_two", about="2", markers=("<acme>",), beats=("acme_one",)))
    detection = detect("<acme>{{ tools }}")
    assert (detection.format.name, detection.beaten) == ("acme_two", ("acme_one",))
    assert "beats acme_one" in detection.evidence
    registry._registered["acme_one"] = replace(get_format("acme_one"), beats=("acme_two",))
    with pytest.raises(FormatConflictError, match="acme_one and acme_two"):
        detect("<acme>{{ tools }}")


def test_a_marker_may_be_in_a_string_literal_with_its_escapes() -> None:
    source = r"""{% if tools %}{{ "<arg_key>k</arg_key>\n<arg_value>\"v\"</arg_value>" }}{% endif %}"""
    assert detect(source).format.name == "glm45"


def test_an_invalid_template_without_markers_is_reported_as_invalid() -> None:
    with pytest.raises(TemplateError, match="cannot be parsed"):
        detect("{% if tools %}")
