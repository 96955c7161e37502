import json
from pathlib import Path

import pytest

from cli.command_line import run
from ferrule.cli.grammars import TARGETS
from ferrule.rules.matcher import grammar_error

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'


def test_the_grammar_of_a_rule_is_printed_and_compiles(tools_file: str) -> None:
    ran = run("rule", "-f", "hermes", "-t", tools_file, "-c", "required")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("start: ")
    assert grammar_error(ran.out) == ""


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_prints_something(target: str, tools_file: str) -> None:
    ran = run("rule", "-f", "hermes", "-t", tools_file, "-c", "required", "--target", target)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("\n")


@pytest.mark.parametrize("choice", ["auto", "none", "required", "get_weather"])
def test_every_choice_has_a_rule(choice: str, tools_file: str) -> None:
    assert run("rule", "-f", "hermes", "-t", tools_file, "-c", choice).code == 0


def test_a_choice_of_an_unknown_tool_is_an_error_with_a_message(tools_file: str) -> None:
    ran = run("rule", "-f", "hermes", "-t", tools_file, "-c", "get_wether")
    assert ran.code == 1
    assert "get_wether" in ran.err
    assert "get_weather" in ran.err


def test_a_choice_with_a_name_missing_is_wrong_usage(tools_file: str) -> None:
    assert run("rule", "-f", "hermes", "-t", tools_file, "-c", "get_weather,").code == 2


def test_reasoning_that_a_format_does_not_have_cannot_be_prefilled(tools_file: str) -> None:
    assert run("rule", "-f", "mistral_v3", "-t", tools_file, "--reasoning", "prefilled").code == 1


def test_a_response_schema_binds_the_answer(tools_file: str, tmp_path: Path) -> None:
    schema = tmp_path / "answer.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}}), encoding="utf-8")
    options = ("-f", "hermes", "-t", tools_file, "-c", "none", "--reasoning", "off", "--response-schema", str(schema))
    assert run("accepts", *options, stdin='{"n": 5}').code == 0
    assert run("accepts", *options, stdin="hello").code == 1


@pytest.mark.parametrize("content, code", [("{", 1), ("5", 1)])
def test_an_invalid_response_schema_is_an_error_with_a_message(
    content: str, code: int, tools_file: str, tmp_path: Path
) -> None:
    schema = tmp_path / "answer.json"
    schema.write_text(content, encoding="utf-8")
    ran = run("rule", "-f", "hermes", "-t", tools_file, "--response-schema", str(schema))
    assert ran.code == code
    assert ran.err.startswith("error: ")


def test_a_response_schema_that_is_not_there_is_wrong_usage(tools_file: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.json")
    assert run("rule", "-f", "hermes", "-t", tools_file, "--response-schema", missing).code == 2


def test_a_text_that_the_rule_admits_is_admitted(tools_file: str) -> None:
    ran = run("accepts", "-f", "hermes", "-t", tools_file, "-c", "required", stdin=CALL)
    assert (ran.code, ran.out, ran.err) == (0, "accepted\n", "")


def test_the_place_of_a_failure_is_shown_with_a_caret(tools_file: str) -> None:
    wrong = CALL.replace('"city": "Rome"', '"city": 5')
    ran = run("accepts", "-f", "hermes", "-t", tools_file, "-c", "required", stdin=wrong)
    assert ran.code == 1
    output, caret = ran.out.splitlines()
    assert output[caret.index("^")] == "5"
    assert ran.err == f"error: line 2, column {wrong.splitlines()[1].index('5') + 1}: '5' is not accepted\n"


def test_a_text_that_stops_too_early_says_so(tools_file: str) -> None:
    ran = run("accepts", "-f", "hermes", "-t", tools_file, "-c", "required", stdin=CALL[:-1])
    assert ran.code == 1
    assert "may not end here" in ran.err


def test_a_wide_character_counts_as_one_column(tools_file: str) -> None:
    wrong = CALL.replace("Rome", "Zürich 😀\x01")
    ran = run("accepts", "-f", "hermes", "-t", tools_file, "-c", "required", stdin=wrong)
    assert f"column {wrong.splitlines()[1].index(chr(1)) + 1}:" in ran.err


def test_calls_in_parallel_can_be_forbidden(tools_file: str) -> None:
    options = ("-f", "hermes", "-t", tools_file, "-c", "required")
    assert run("accepts", *options, stdin=f"{CALL}\n{CALL}").code == 0
    assert run("accepts", *options, "--no-parallel", stdin=f"{CALL}\n{CALL}").code == 1
