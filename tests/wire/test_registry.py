"""The registry: formats by name, external ones beside the built-in ones, and presets that parse several."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ferrule import FormatConflictError, Reply, ToolCall, UnknownFormatError
from ferrule.formats import Format, all_formats, get_format, parse, preset, register, render
from ferrule.wire import registry
from ferrule.wire.node import ARGS, NAME, calls, free, seq, turn
from wire.weather import TOOLS

ROME = ToolCall.of("get_weather", {"city": "Rome"})


def at_signs(name: str = "at_signs") -> Format:
    """A family that nobody knows: `@@get_weather{"city": "Rome"}@@`."""
    return replace(
        get_format("generic_xml"),
        name=name,
        markers=("@@",),
        reply=turn(free(), calls(seq("@@", NAME, ARGS, "@@"))),
    )


@pytest.fixture(autouse=True)
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {})
    yield
    registry._load_formats.cache_clear()


def install(where: Path, module: str, source: str, points: str) -> None:
    """A distribution as an installer leaves it behind: a module, and a folder of facts about it."""
    (where / f"{module}.py").write_text(source, encoding="utf-8")
    facts = where / f"{module}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text(f"[ferrule.formats]\n{points}\n", encoding="utf-8")
    registry._load_formats.cache_clear()


SOURCE = """
from dataclasses import replace
from ferrule.wire.formats.hermes import HERMES
FORMAT = replace(HERMES, name="outsider")
PAIR = (replace(HERMES, name="outsider_2"), replace(HERMES, name="outsider_3"))
TAKEN = replace(HERMES, name="llama3")
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("outsider_package", None)


def test_every_format_is_found_under_its_own_name_in_sorted_order() -> None:
    by_name = all_formats()
    assert list(by_name) == sorted(by_name)
    assert all(form.name == name and get_format(name) is form for name, form in by_name.items())


def test_an_unknown_name_fails_at_once_and_lists_the_known_ones() -> None:
    with pytest.raises(UnknownFormatError, match="'hermse'") as refusal:
        get_format("hermse")
    assert all(name in refusal.value.hint for name in all_formats())


def test_an_unknown_member_of_a_preset_fails_when_the_preset_is_made() -> None:
    with pytest.raises(UnknownFormatError, match="'hermse'"):
        preset("mine", ["hermes", "hermse"])


def test_a_registered_format_renders_and_parses_like_any_other() -> None:
    form = register(at_signs())
    assert get_format("at_signs") is form
    text = render(form, Reply.of("ok ", ROME), TOOLS)
    assert text == 'ok @@get_weather{"city": "Rome"}@@'
    assert [call.function for call in parse(get_format("at_signs"), text, TOOLS).calls] == [ROME.function]


def test_a_registered_format_can_be_part_of_a_preset() -> None:
    register(at_signs())
    both = preset("both", ["hermes", "at_signs"])
    assert parse(both, '@@get_weather{"city": "Rome"}@@', TOOLS).calls[0].function == ROME.function


@pytest.mark.parametrize("name", ["hermes", "at_signs"])
def test_a_name_that_is_taken_is_a_conflict(name: str) -> None:
    register(at_signs())
    with pytest.raises(FormatConflictError, match=name):
        register(at_signs(name))
    assert get_format("hermes").reply is not at_signs().reply


def test_an_installed_package_brings_a_format(packages: Path) -> None:
    install(packages, "outsider_package", SOURCE, "mine = outsider_package:FORMAT")
    assert get_format("outsider").name == "outsider"
    assert "hermes" in all_formats()


def test_an_installed_package_may_bring_several_formats_at_once(packages: Path) -> None:
    install(packages, "outsider_package", SOURCE, "mine = outsider_package:PAIR")
    assert {"outsider_2", "outsider_3"} <= set(all_formats())


def test_an_installed_package_that_takes_a_known_name_is_a_conflict(packages: Path) -> None:
    install(packages, "outsider_package", SOURCE, "mine = outsider_package:TAKEN")
    with pytest.raises(FormatConflictError, match="llama3"):
        all_formats()


def test_the_names_of_packages_that_are_gone_are_gone() -> None:
    assert not [name for name in all_formats() if name.startswith("outsider")]


THREE = {
    "hermes": 'Well.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
    "qwen_xml": "Well.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
    "</function>\n</tool_call>",
    "bare_json": 'Well.\n{"name": "get_weather", "arguments": {"city": "Rome"}}',
}


@pytest.mark.parametrize("first", THREE)
@pytest.mark.parametrize("written_by", THREE)
def test_a_preset_reads_every_member_whichever_is_first(first: str, written_by: str) -> None:
    form = preset("three", [first, *(name for name in THREE if name != first)])
    reply = parse(form, THREE[written_by], TOOLS)
    assert [call.function for call in reply.calls] == [ROME.function]
    assert reply.text == "Well."
    assert not reply.diagnostics


@pytest.mark.parametrize("first", THREE)
def test_a_preset_writes_its_first_member(first: str) -> None:
    form = preset("three", [first, *(name for name in THREE if name != first)])
    assert form.name == "three"
    assert render(form, Reply.of("Well.", ROME), TOOLS) == THREE[first]


def test_where_two_members_read_one_text_differently_the_earlier_decides() -> None:
    text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>"
    for others in ([], ["hermes"]):
        newline_is_markup = preset("a", [*others, "qwen_xml", "mimo_xml"])
        newline_is_data = preset("b", [*others, "mimo_xml", "qwen_xml"])
        assert parse(newline_is_markup, text, TOOLS).calls[0].arguments == {"city": "Rome"}
        assert parse(newline_is_data, text, TOOLS).calls[0].arguments == {"city": "\nRome\n"}


def test_a_bare_object_inside_reasoning_is_reasoning() -> None:
    form = preset("two", ["hermes", "bare_json"])
    reply = parse(form, '<think>maybe {"name": "ping", "arguments": {}}</think>No.', TOOLS)
    assert not reply.calls
    assert reply.reasoning == 'maybe {"name": "ping", "arguments": {}}'


def test_a_preset_with_a_plain_member_still_calls_only_what_is_offered_and_not_what_is_quoted() -> None:
    form = preset("three", list(THREE))
    for text in ('{"name": "delete_all", "arguments": {}}', f"```\n{THREE['bare_json']}\n```"):
        reply = parse(form, text, TOOLS)
        assert not reply.calls
        assert reply.text == text


def test_a_preset_reads_the_reasoning_and_the_stops_of_every_member() -> None:
    form = preset("two", ["mistral_v13", "hermes"])
    assert parse(form, "<think>\nhm\n</think>\n\nhi<|im_end|>").reasoning == "hm"
    assert parse(form, "[THINK]hm[/THINK]hi</s>").reasoning == "hm"
    assert parse(form, "[THINK]hm[/THINK]hi</s>").text == parse(form, "hi<|im_end|>").text == "hi"


def test_a_preset_of_nothing_is_refused_with_a_hint() -> None:
    with pytest.raises(UnknownFormatError, match="has no members"):
        preset("x", [])
