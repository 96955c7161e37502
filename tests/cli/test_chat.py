"""`ferrule chat`: calls run, results go back to the model, and side effects need approval."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from cli.command_line import run
from ferrule import Reply, ToolCall
from ferrule.cli import chat
from ferrule.cli.function_option import read_functions
from ferrule.engines.fake import FakeEngine

MODULE = '''
from ferrule import tool

@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b

@tool(side_effects=True)
def send(text: str) -> str:
    """Sends."""
    return "sent"

def shout(text: str) -> str:
    """Loud."""
    return text.upper()

BOTH = [add, shout]
'''


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    file = tmp_path / "some_tools.py"
    file.write_text(MODULE, encoding="utf-8")
    return file


def chatted(monkeypatch: pytest.MonkeyPatch, tools: Path, stdin: str, *replies: Reply) -> str:
    monkeypatch.setattr(chat, "load_engine", lambda name: FakeEngine(replies))
    ran = run("chat", "--engine", "fake:", "--tools", str(tools), stdin=stdin)
    assert ran.code == 0, ran.err
    return ran.out


def test_a_call_is_run_and_its_result_is_shown(monkeypatch: pytest.MonkeyPatch, tools: Path) -> None:
    call = Reply.of(ToolCall.of("add", {"a": 2, "b": 3}, id="c"))
    out = chatted(monkeypatch, tools, "2 and 3?\n", call, Reply.of("five"))
    assert 'add {"a": 2, "b": 3}' in out
    assert "add returned 5" in out
    assert out.endswith("five\n")


@pytest.mark.parametrize("answer, gave", [("y", "sent"), ("n", "denied: the user refused it")])
def test_a_tool_with_side_effects_runs_only_after_a_yes(
    monkeypatch: pytest.MonkeyPatch, tools: Path, answer: str, gave: str
) -> None:
    call = Reply.of(ToolCall.of("send", {"text": "hi"}, id="c"))
    engine = FakeEngine([call, Reply.of("ok")])
    monkeypatch.setattr(chat, "load_engine", lambda name: engine)
    ran = run("chat", "--engine", "fake:", "--tools", str(tools), stdin=f"send hi\n{answer}\n")
    assert "run send" in ran.out
    assert engine.requests[1].messages[-1].results[0].content == gave


def test_tools_come_from_a_file_by_name_or_all_of_them(tools: Path) -> None:
    names = [[one.definition.name for one in read_functions(f"{tools}{name}")] for name in ("", ":shout", ":BOTH")]
    assert names == [["add", "send"], ["shout"], ["add", "shout"]]


@pytest.mark.parametrize("place", ["no_such_module:x", "json:no_such_name", "sys:maxsize", "missing.py:x"])
def test_a_module_without_tools_is_reported(place: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read_functions(place)


def test_an_unknown_engine_is_reported_with_the_known_ones() -> None:
    ran = run("chat", "--engine", "nothing:here", "-m", "hello")
    assert ran.code == 1
    assert "llama" in ran.err


def test_one_message_is_answered_and_the_command_ends() -> None:
    ran = run("chat", "--engine", "fake:Hello there.", "-m", "hello")
    assert (ran.code, ran.out) == (0, "Hello there.\n")


def test_a_conversation_continues_until_there_is_no_more_input() -> None:
    ran = run("chat", "--engine", "fake:Yes.", stdin="one\ntwo\n")
    assert ran.out == "Yes.\nYes.\n"
