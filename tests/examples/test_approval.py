from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule import Reply, ToolCall

Run = Callable[..., str]
REPLIES = [Reply.of(ToolCall.of("add_item", {"item": "milk"}, id="c1")), Reply.of("Well.")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shopping.txt"


def say(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: words)


def test_with_yes_it_runs_unasked(run: Run, file: Path) -> None:
    printed = run("approval.py", REPLIES, "--yes", "--file", str(file))
    assert 'waiting for approval: add_item {"item": "milk"}\nrunning: add_item' in printed
    assert file.read_text() == "milk\n"


@pytest.mark.parametrize("words", ["n", "", "no", "maybe"])
def test_any_answer_but_yes_is_a_no_and_the_model_sees_the_denial(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    say(monkeypatch, words)
    printed = run("approval.py", REPLIES, "--file", str(file))
    assert not file.exists()
    assert "runs:" not in printed
    assert "the user refused it" in printed
    assert printed.endswith("nothing was written\n")


def test_where_nobody_can_be_asked_nothing_happens(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", closed)
    run("approval.py", REPLIES, "--file", str(file))
    assert not file.exists()


def test_other_arguments_replace_those_of_the_model(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, '{"item": "oats"}')
    printed = run("approval.py", REPLIES, "--file", str(file))
    assert 'running: add_item {"item": "oats"}' in printed
    assert file.read_text() == "oats\n"


def test_other_arguments_are_checked_as_well(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, '{"item": 7}')
    printed = run("approval.py", REPLIES, "--file", str(file))
    assert not file.exists()
    assert "invalid_arguments" in printed


def test_the_approval_prompt_hides_nothing(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visible: list[str] = []

    def noted(prompt: str) -> str:
        visible.append(prompt)
        return "n"

    monkeypatch.setattr("builtins.input", noted)
    turned = Reply.of(ToolCall.of("add_item", {"item": "milk\u202e\x1b[2K"}, id="c1"))
    run("approval.py", [turned, Reply.of("Well.")], "--file", str(file))
    assert "milk\\u202e\\u001b[2K" in visible[0]
