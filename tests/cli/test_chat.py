"""`ferrule chat`: calls run, results go back, a tool that changes the world asks first."""

from __future__ import annotations

import asyncio
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import run
from ferrule import ChatMessage, Reply, ToolCall, ToolCallRequest, tool
from ferrule.cli.chat import MOST_ROUNDS, turn
from ferrule.cli.functions import read_functions
from ferrule.engines.fake import FakeEngine

SENT: list[str] = []
MODULE = '''
from ferrule import tool

@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b

def shout(text: str) -> str:
    """Loud."""
    return text.upper()

BOTH = [add, shout]
'''


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(side_effects=True)
def send(text: str) -> str:
    """Sends."""
    SENT.append(text)
    return "sent"


@tool
def broken() -> str:
    """Fails."""
    raise ValueError("out of order")


TOOLS: dict[str, Any] = {one.definition.name: one for one in (add, send, broken)}


def turned(*replies: Reply, says: bool = True) -> list[ChatMessage]:
    request = ToolCallRequest(messages=(), tools=tuple(one.definition for one in TOOLS.values()))
    engine = FakeEngine(replies)
    return asyncio.run(turn(engine, request, [ChatMessage.user("go")], TOOLS, lambda call: says))


def test_a_call_is_run_and_its_result_goes_back_to_the_model() -> None:
    _, result, answer = turned(Reply.of(ToolCall.of("add", {"a": 2, "b": 3}, id="c")), Reply.of("five"))
    assert result.results[0].content == 5
    assert answer.content == "five"


def test_a_tool_that_changes_the_world_runs_only_after_a_yes() -> None:
    call = Reply.of(ToolCall.of("send", {"text": "hi"}, id="c"))
    SENT.clear()
    denied = turned(call, Reply.of("ok"), says=False)
    assert SENT == []
    assert denied[1].results[0].is_error
    turned(call, Reply.of("ok"), says=True)
    assert SENT == ["hi"]


def test_what_a_tool_raises_is_told_to_the_model() -> None:
    _, result, _ = turned(Reply.of(ToolCall.of("broken", id="c")), Reply.of("sorry"))
    assert result.results[0].is_error
    assert result.results[0].content == "ValueError: out of order"


def test_after_the_last_round_the_model_must_answer() -> None:
    call = Reply.of(ToolCall.of("add", {"a": 1, "b": 1}, id="c"))
    added = turned(*[call] * MOST_ROUNDS, Reply.of("two"))
    assert added[-1].content == "two"


def test_tools_come_from_a_file_by_name_or_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "some_tools.py"
    file.write_text(MODULE, encoding="utf-8")
    names = [[one.definition.name for one in read_functions(f"{file}{name}")] for name in ("", ":shout", ":BOTH")]
    assert names == [["add"], ["shout"], ["add", "shout"]]


@pytest.mark.parametrize("place", ["no_such_module:x", "json:no_such_name", "sys:maxsize", "missing.py:x"])
def test_a_place_without_tools_is_told(place: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read_functions(place)


def test_an_engine_that_does_not_exist_is_told_with_those_that_do() -> None:
    ran = run("chat", "--engine", "nothing:here", "-m", "hello")
    assert ran.code == 1
    assert "llama" in ran.err


def test_one_message_is_answered_and_the_command_ends() -> None:
    ran = run("chat", "--engine", "fake:Hello there.", "-m", "hello")
    assert (ran.code, ran.out) == (0, "Hello there.\n")


def test_a_conversation_goes_on_until_there_is_no_more_input() -> None:
    ran = run("chat", "--engine", "fake:Yes.", stdin="one\ntwo\n")
    assert ran.out == "Yes.\nYes.\n"
