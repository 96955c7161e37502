"""`ferrule inspect`: the format of a model, how it was detected, and the faults of its template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command_line import run
from ferrule.formats import parse
from ferrule.rules.matcher import grammar_error
from ferrule.wire.registry import get_format
from ferrule.wire.template.probe import FaultKind
from wire.test_template_probe import DAMAGED, HERMES


@pytest.fixture
def hermes(tmp_path: Path) -> str:
    path = tmp_path / "hermes.jinja"
    path.write_text(HERMES, encoding="utf-8")
    return str(path)


@pytest.fixture
def plain(tmp_path: Path) -> str:
    path = tmp_path / "plain"
    path.mkdir()
    source = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    settings = {"chat_template": source, "bos_token": "<s>", "eos_token": "</s>"}
    (path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("source, expected", DAMAGED.values(), ids=DAMAGED.keys())
def test_every_fault_of_a_template_is_listed(tmp_path: Path, source: str, expected: list[str]) -> None:
    path = tmp_path / "model.jinja"
    path.write_text(source, encoding="utf-8")
    document = run("inspect", str(path), "--format", "hermes", "--json").json
    assert [fault["kind"] for fault in document["faults"]] == expected
    assert (document["format"], document["how"]) == ("hermes", "by_hand")
    assert set(expected) <= set(FaultKind)


def test_a_template_is_described_in_full(hermes: str) -> None:
    ran = run("inspect", hermes)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("hermes.jinja\n")
    for heading in (
        "family:\n  hermes\n",
        "format:\n  hermes: ",
        "detected by:\n  the template contains '<tool_call>'",
    ):
        assert heading in ran.out
    assert "faults of the chat template:\n  none found\n" in ran.out
    assert "rule for two tools" not in ran.out


def test_the_example_holds_a_call_that_the_format_reads(hermes: str) -> None:
    document = run("inspect", hermes, "--json").json
    # The tool declaration before it is not a call.
    rendered = document["example"].partition("<|im_start|>assistant")[2]
    (call,) = parse(get_format(document["format"]), rendered).calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Paris", "days": 2})
    assert '{"celsius": 21}' in document["example"]
    assert "rule" not in document


def test_a_model_without_tools_gets_the_generic_format_explained_in_the_prompt(plain: str) -> None:
    document = run("inspect", plain, "--json").json
    assert (document["name"], document["architecture"], document["family"]) == ("plain", "llama", "generic_xml")
    assert (document["format"], document["how"]) == ("generic_xml", "no_tools")
    assert "has no tool support" in document["evidence"]
    assert document["example"].startswith("<s>[user]These tools can be called:")
    assert "<name>get_weather</name>" in document["example"]
    assert "these faults have no effect" in run("inspect", plain).out


@pytest.mark.parametrize("target", ["lark", "gbnf", "structural_tag", "json_schema"])
def test_the_rule_for_two_tools_is_printed_for_any_target(hermes: str, target: str) -> None:
    document = run("inspect", hermes, "--rule", "--target", target, "--json").json
    assert "get_weather" in document["rule"]
    assert "get_time" in document["rule"]
    if target == "lark":
        assert grammar_error(document["rule"]) == ""
    assert "rule for two tools:" in run("inspect", hermes, "--rule", "--target", target).out


def test_on_a_terminal_the_same_is_shown_and_nothing_in_it_can_move_the_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    path = tmp_path / "bad\x1b[2J.jinja"
    path.write_text(HERMES + "\x1b[2J", encoding="utf-8")
    ran = run("inspect", str(path), on_terminal=True)
    assert ran.code == 0
    assert "detected by" in ran.out
    assert "\x1b[2J" not in ran.out
    assert "\x1b" not in run("inspect", str(path)).out.splitlines()[0]


def test_an_example_that_the_template_refuses_says_so_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "model.jinja"
    path.write_text("{{ raise_exception('not today') }}", encoding="utf-8")
    assert run("inspect", str(path), "--json").json["example"] == "(none: the template refuses: not today)"


@pytest.mark.parametrize(
    "source, error",
    [
        ("{{ tools }}<mystery>", "error: the template uses tools but contains the markers of no known format"),
        ("{% if tools %}", "error: the template cannot be parsed"),
        ("", "error: model.jinja has no chat template"),
    ],
)
def test_a_model_that_cannot_be_inspected_exits_with_1_and_a_hint(tmp_path: Path, source: str, error: str) -> None:
    path = tmp_path / "model.jinja"
    path.write_text(source, encoding="utf-8")
    ran = run("inspect", str(path))
    assert (ran.code, ran.raw) == (1, b"")
    assert ran.err.startswith(error)
    assert "\nhint: " in ran.err


def test_a_file_that_is_not_there_exits_with_1() -> None:
    ran = run("inspect", "no/such/model.gguf")
    assert (ran.code, ran.raw) == (1, b"")
    assert ran.err.startswith("error: cannot read model.gguf")
