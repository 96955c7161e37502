"""`ferrule chat` in a real terminal of 80 columns, with a model whose every word the test decides."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from live.scripted_model import Said, ScriptedModel, results_in, scripted_model
from terminal_program import ALT_ENTER, CTRL_C, CTRL_D, ENTER, UP, TerminalProgram, in_terminal

TOOLS = '''
from pathlib import Path

from ferrule import tool


@tool(side_effects=True)
def send(text: str) -> str:
    """Send a text."""
    with Path("sent.txt").open("a") as file:
        file.write(text)
    return "sent"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ALL = [send, add]
'''
MCP_SERVER = Path(__file__).parents[1] / "live" / "mcp_server.py"
MARKDOWN = "# Plan\n\nSome **bold** text.\n\n- one\n- two\n\n```python\nprint(1)\n```\n\nThe end."


@contextmanager
def chat(model: ScriptedModel, folder: Path, *options: str) -> Iterator[TerminalProgram]:
    (folder / "chat_tools.py").write_text(TOOLS, encoding="utf-8")
    engine = f"openai:m?url={model.url}&key=sk-secret-key"
    command = [sys.executable, "-m", "ferrule", "chat", "-e", engine, "-t", "chat_tools.py:ALL", *options]
    with in_terminal(command, folder) as program:
        yield program


def last_text(messages: list[dict[str, Any]]) -> str:
    return str(messages[-1]["content"])


def echo(messages: list[dict[str, Any]], names: list[str]) -> Said:
    return Said(f"You said: {last_text(messages)}")


def test_it_begins_with_the_model_the_tools_and_what_approval_means(tmp_path: Path) -> None:
    with scripted_model(echo) as model, chat(model, tmp_path, "--policy", "required_first_hop") as program:
        banner = program.wait_for_prompt()
        program.type(CTRL_D)
        assert program.wait_for_end() == 0
    assert "model     openai:m?url=" in banner
    assert "sk-secret-key" not in program.text
    assert "the model calls a tool before its first answer" in banner
    assert "send*, add (* has side effects)" in banner
    assert "ask: a tool with side effects runs after you say yes" in banner
    assert "/approve all · /approve none" in banner
    assert max(map(len, banner.splitlines())) <= 80


def test_markdown_is_rendered_and_the_time_is_shown(tmp_path: Path) -> None:
    with scripted_model(lambda messages, names: Said(MARKDOWN)) as model, chat(model, tmp_path) as program:
        program.wait_for_prompt()
        answer = program.send("plan")
    assert "Some bold text." in answer
    assert " • one" in answer
    assert "```" not in answer.rpartition("The end.")[0].rpartition("writing")[2]
    assert "The end." in answer


def test_what_a_model_and_a_tool_write_gives_no_orders_to_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\u202e"

    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        if messages[-1]["role"] == "tool":
            return Said(f"It gave: {evil}")
        return Said(evil, [("send", {"text": evil})])

    with scripted_model(reply) as model, chat(model, tmp_path, "--approve", "all") as program:
        program.wait_for_prompt()
        answer = program.send("go")
    assert b"\x1b[2J" not in program.raw
    assert b"owned\x07" not in program.raw
    assert "\u202e" not in program.text
    assert "\\x1b[2J\\x1b]0;owned\\x07\\u202e" in answer
    assert "send returned sent" in answer


@pytest.mark.parametrize("answer, sent", [("y", "hi"), ("n", ""), ("", "")])
def test_a_tool_with_side_effects_runs_only_after_a_yes(tmp_path: Path, answer: str, sent: str) -> None:
    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        return Said(last_text(messages)) if messages[-1]["role"] == "tool" else Said("", [("send", {"text": "hi"})])

    with scripted_model(reply) as model, chat(model, tmp_path) as program:
        program.wait_for_prompt()
        program.type(f"send hi{ENTER}")
        program.wait_for('run send({"text": "hi"})? [y/N/a]')
        program.type(answer + ENTER)
        printed = program.wait_for(" s\n")
    assert ("denied: the user refused it" in printed) is not sent
    assert _read(tmp_path / "sent.txt") == sent


def test_always_approves_one_tool_until_approval_is_set_again(tmp_path: Path) -> None:
    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        return Said("done") if messages[-1]["role"] == "tool" else Said("", [("send", {"text": "x"})])

    with scripted_model(reply) as model, chat(model, tmp_path) as program:
        program.wait_for_prompt()
        program.type(f"one{ENTER}")
        program.wait_for("[y/N/a]")
        program.type(f"a{ENTER}")
        program.wait_for("runs without a question")
        program.wait_for_prompt()
        assert "[y/N/a]" not in program.send("two")
        assert "ask <" in program.send("/approve ask")
        program.type(f"three{ENTER}")
        program.wait_for("[y/N/a]")
        program.type(f"n{ENTER}")
        program.wait_for_prompt()
        assert "none <" in program.send("/approve none")
        assert "denied" in program.send("four")
    assert _read(tmp_path / "sent.txt") == "xx"


def test_ctrl_c_stops_the_answer_and_the_conversation_continues(tmp_path: Path) -> None:
    held = Event()

    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        return Said("The beginning", until=held) if last_text(messages) == "hold" else echo(messages, names)

    with scripted_model(reply) as model, chat(model, tmp_path) as program:
        program.wait_for_prompt()
        program.type(f"hold{ENTER}")
        program.wait_for("The beginni")
        program.type(CTRL_C)
        program.wait_for("stopped; the conversation keeps what came so far")
        program.wait_for_prompt()
        held.set()
        assert "You said: next" in program.send("next")
        roles = [message["role"] for message in model.requests[-1]["messages"]]
        assert roles == ["user", "assistant", "user"]
        assert "The beginni" in model.requests[-1]["messages"][1]["content"]


def test_ctrl_c_at_a_question_stops_the_answer_and_runs_nothing(tmp_path: Path) -> None:
    with (
        scripted_model(lambda messages, names: Said("", [("send", {"text": "x"})])) as model,
        chat(model, tmp_path) as program,
    ):
        program.wait_for_prompt()
        program.type(f"go{ENTER}")
        program.wait_for("[y/N/a]")
        program.type(CTRL_C)
        program.wait_for("stopped")
        program.wait_for_prompt()
    assert len(model.requests) == 1
    assert not (tmp_path / "sent.txt").exists()


def test_ctrl_c_twice_leaves_and_once_clears_the_line(tmp_path: Path) -> None:
    with scripted_model(echo) as model, chat(model, tmp_path) as program:
        program.wait_for_prompt()
        program.type("not sent")
        program.wait_for("not sent")
        program.type(CTRL_C + CTRL_C)
        program.wait_for("Ctrl-C again leaves.")
        program.wait_for_prompt()
        program.type(CTRL_C)
        assert program.wait_for_end() == 0
    assert model.requests == []


def test_messages_have_several_lines_and_a_history_that_the_next_session_has_too(tmp_path: Path) -> None:
    with scripted_model(echo) as model:
        with chat(model, tmp_path) as program:
            program.wait_for_prompt()
            program.send(f"first{ALT_ENTER}second")
            program.send(f"third\\{ENTER}fourth")
            program.send("/approve")
        with chat(model, tmp_path) as program:
            program.wait_for_prompt()
            program.send(UP + UP)
            program.type(CTRL_D)
            assert program.wait_for_end() == 0
        with chat(model, tmp_path, "--no-history") as program:
            program.wait_for_prompt()
            program.send(UP + "nothing before")
    sent = [last_text(request["messages"]) for request in model.requests]
    assert sent == ["first\nsecond", "third\nfourth", "third\nfourth", "nothing before"]
    history = tmp_path / "cache" / "ferrule" / "chat" / "history"
    assert history.stat().st_mode & 0o777 == 0o600


def test_commands_show_the_tools_save_the_conversation_and_change_the_model(tmp_path: Path) -> None:
    with scripted_model(echo) as model:
        with chat(model, tmp_path) as program:
            program.wait_for_prompt()
            assert "/approve [ask|all|none]" in program.send("/help")
            assert "Add two numbers." in program.send("/tools")
            program.send("one")
            assert "saved 2 messages" in program.send("/save talk.json")
            program.send("two")
            assert "saved 4 messages" in program.send("/save talk.json")
            assert "there is no raw output" in program.send("/raw")
            assert "the file" not in program.send("/model nothing:here")
            assert "model: fake:New one." in program.send("/model fake:New one.")
            assert "New one." in program.send("three")
            assert "there is no command /wrong" in program.send("/wrong")
        assert len(model.requests) == 2
        (tmp_path / "other.json").write_text("mine", encoding="utf-8")
        with chat(model, tmp_path, "--load", "talk.json") as program:
            program.wait_for_prompt()
            assert "other.json exists" in program.send("/save other.json")
            assert "You said: /etc" in program.send("//etc")
        assert [message["role"] for message in model.requests[-1]["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert (tmp_path / "other.json").read_text(encoding="utf-8") == "mine"
    assert len(json.loads((tmp_path / "talk.json").read_text(encoding="utf-8"))["messages"]) == 4


def test_tools_of_mcp_servers_are_offered_and_a_server_that_fails_is_named(tmp_path: Path) -> None:
    servers = {
        "live": {"command": sys.executable, "args": [str(MCP_SERVER), "stdio"]},
        "broken": {"command": "no-such-program"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    with scripted_model(echo) as model, chat(model, tmp_path, "--mcp-config", "mcp.json") as program:
        listed = program.wait_for_prompt()
        # On a busy machine the server may start after the banner.
        while "live_echo" not in listed or "broken is failed" not in listed:
            listed = program.send("/tools")


def test_an_error_of_the_engine_is_shown_and_the_message_can_be_sent_again(tmp_path: Path) -> None:
    with scripted_model(echo) as model, chat(model, tmp_path, "--load", "talk.json") as program:
        assert program.wait_for_end() == 1
        assert "cannot read talk.json" in program.text
    with in_terminal([sys.executable, "-m", "ferrule", "chat", "-e", "fake:once?times=1"], tmp_path) as program:
        program.wait_for_prompt()
        assert "once" in program.send("one")
        assert "error: the fake engine has no reply left" in program.send("two")
        assert "saved 2 messages" in program.send("/save talk.json")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_a_running_gateway_is_the_model_with_its_own_tools_and_never_gets_the_key_of_openai(tmp_path: Path) -> None:
    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        return Said("done") if messages[-1]["role"] == "tool" else Said("", [("add", {"a": 1, "b": 2})])

    (tmp_path / "chat_tools.py").write_text(TOOLS, encoding="utf-8")
    keys = {"FERRULE_KEY": "fk-gateway", "OPENAI_API_KEY": "sk-never"}
    with scripted_model(reply) as model:
        serve = [sys.executable, "-m", "ferrule", "serve", "--port", "0", "--tools", "chat_tools.py:ALL"]
        with in_terminal([*serve, "--engine", f"openai:m?url={model.url}&key=x"], tmp_path) as gateway:
            url = gateway.wait_for("/console/").rpartition(" ")[2].removesuffix("/console/")
            command = [sys.executable, "-m", "ferrule", "chat", "--url", url]
            with in_terminal(command, tmp_path, keys) as program:
                assert url in program.wait_for_prompt()
                assert "done" in program.send("what is 1 and 2?")
                assert "has no model 'other'" in program.send("/model other")
    assert results_in(model.requests[-1]["messages"]) == ["3"]
    assert "sk-never" not in json.dumps(model.requests)
