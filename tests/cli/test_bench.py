from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.bfcl_data import CITIES, write_data
from cli.command_line import run
from ferrule.bench import bfcl_requests

NAMES = ("simple_python", "parallel", "irrelevance", "live_relevance")
CATEGORIES = [flag for name in NAMES for flag in ("--category", name)]
TALKS = "fake:I will not call."


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(write_data(tmp_path / "data"))


def test_bfcl_scores_what_the_engine_answers_and_keeps_it(data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run("bench", "bfcl", "-e", TALKS, "--data", data, "--out", str(out), *CATEGORIES)
    assert ran.code == 0, ran.err
    results, misses = ran.out.split("\n\n")
    rows = {row[0]: row for row in (line.split("\t") for line in results.splitlines())}
    assert rows["irrelevance (no call)"][:3] == ["irrelevance (no call)", "auto", "6 of 6"]
    assert misses.startswith("category\trun\tno call\t")
    assert rows["total"][2] == f"{len(CITIES)} of {4 * len(CITIES)}"
    assert {path.name for path in out.iterdir()} == {"constrained", "results.json", "results.md", "bfcl.svg"}
    assert str(out) in ran.err


def test_bfcl_resumes_where_it_was_stopped(data: str, tmp_path: Path) -> None:
    options = ("--data", data, "--out", str(tmp_path / "out"), *CATEGORIES)
    assert run("bench", "bfcl", "-e", TALKS, *options, "--count", "5").code == 0
    # An engine with 3 answers is enough for the 8 questions.
    again = run("bench", "bfcl", "-e", f"{TALKS}?times=3", *options, "--count", "8")
    assert again.code == 0, again.err
    entry = json.loads((tmp_path / "out" / "results.json").read_text())["constrained"]["total"]
    assert (entry["answered"], entry["misses"]) == (8, {"no call": 6})


def test_bfcl_does_not_mix_the_answers_of_two_engines(data: str, tmp_path: Path) -> None:
    options = ("--data", data, "--out", str(tmp_path / "out"), *CATEGORIES)
    assert run("bench", "bfcl", "-e", TALKS, *options).code == 0
    ran = run("bench", "bfcl", "-e", "fake:Another", *options)
    assert (ran.code, ran.raw) == (1, b"")
    assert "contains answers from a run with other settings" in ran.err


def test_a_terminal_gets_a_table_with_what_the_numbers_are(data: str, tmp_path: Path) -> None:
    options = ("--data", data, "--out", str(tmp_path / "out"), *CATEGORIES)
    ran = run("bench", "bfcl", "-e", TALKS, *options, on_terminal=True)
    assert ran.code == 0
    assert "\t" not in ran.out
    assert "Incorrect replies by reason" in ran.out


@pytest.mark.parametrize("measurement", ["bfcl", "validity"])
def test_without_the_questions_it_says_how_to_get_them(
    measurement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bfcl_requests, "DATA", tmp_path / "nowhere")
    ran = run("bench", measurement, "-e", TALKS)
    assert (ran.code, ran.raw) == (1, b"")
    error, hint = ran.err.splitlines()
    assert "BFCL_v4_simple_python.json" in error
    assert "pip download --no-deps bfcl-eval==" in hint
    assert "--data" in hint


@pytest.mark.parametrize(
    "argv, expected",
    [
        (("bfcl", "--category", "simple_java"), "source code in strings"),
        (("bfcl", "--unconstrained"), "does not use a rule"),
        (("overhead",), "cannot run without Ferrule"),
        (("validity", "--format", "hermes"), "has a wire format of its own"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(argv: tuple[str, ...], expected: str, data: str) -> None:
    with_data = () if argv[0] == "overhead" else ("--data", data)
    saved = ("--category", "parallel") if argv == ("bfcl", "--unconstrained") else ()
    if argv[0] == "validity":
        _add(Path(data), "multiple", "live_simple")
    ran = run("bench", *argv, *saved, "-e", TALKS, *with_data)
    assert (ran.code, ran.raw) == (1, b"")
    assert expected in ran.err


def test_validity_judges_an_engine_with_a_format_of_its_own(data: str) -> None:
    _add(Path(data), "multiple", "live_simple")
    ran = run("bench", "validity", "-e", TALKS, "--data", data, "--count", "30")
    assert ran.code == 0, ran.err
    assert [line.split("\t")[:2] for line in ran.out.splitlines()[1:]] == [
        ["its own", "0 of 30 (0.0%)"],
        ["total", "0 of 30 (0.0%)"],
    ]


def _add(data: Path, *categories: str) -> None:
    """Add the same questions under other names."""
    for category in categories:
        (data / f"BFCL_v4_{category}.json").write_text((data / "BFCL_v4_simple_python.json").read_text())
