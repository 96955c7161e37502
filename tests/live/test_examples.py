"""The examples as a user runs them: each in its own process, with the real model, server, bus or client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from ferrule.sources.mcp.config import StdioTransport
from lab.bus_server import nats_server
from lab.gateway_process import SMOL, gateway_url
from lab.servers import MODEL, QWEN
from live.mcp_world import filesystem

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
HELD = "grammar by llama"


def run_command(*command: str, answer: str = "", python: str = sys.executable, **environment: str) -> str:
    """The output of a program, which must succeed and print nothing to stderr."""
    done = subprocess.run(
        [python, *command],
        cwd=EXAMPLES,
        env={**os.environ, "FERRULE_MODEL": str(MODEL), **environment},
        input=answer,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def test_tool_calling() -> None:
    printed = run_command("tool_calling.py")
    assert printed.count(HELD) == 3
    assert 'calls: get_weather {"city": "' in printed
    assert 'calls: calculate {"expression": "17 * 23 + 4"}' in printed
    assert "calculate returned: 395" in printed
    assert "search_notes returned: [" in printed
    assert printed.count("\nmodel: ") == 3


def test_many_turns() -> None:
    printed = run_command("many_turns.py")
    assert printed.count("  calls: add_item ") >= 3
    assert "bytes of JSON\n\nyou: Add apples" in printed
    assert "the list: milk, bread, apples\n" in printed


def test_parallel_calls() -> None:
    printed = run_command("parallel_calls.py")
    started, finished = printed.index("\nstarted: "), printed.index("\nfinished: ")
    assert printed.count("started: get_weather", started, finished) == 2
    assert "2 calls of 0.5 s each took " in printed


def test_streaming() -> None:
    printed = run_command("streaming.py")
    assert HELD in printed
    pieces = printed.split("get_weather ", 1)[1].partition("\n")[0].split("|")
    assert len(pieces) > 3
    assert "".join(pieces).startswith('{"city": "')
    assert "get_weather returned: " in printed


def test_approval(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    printed = run_command("approval.py", "--file", str(file), answer="y\n")
    assert 'run add_item {"item": "milk"}? [y, n, or other arguments as JSON]' in printed
    assert file.read_text(encoding="utf-8") == "milk\n"


def test_structured_answer() -> None:
    printed = run_command("structured_answer.py")
    assert "get_weather returned: " in printed
    assert "as a value: Advice(city=" in printed


def test_receipts() -> None:
    printed = run_command("receipts.py")
    assert printed.count(HELD) == 2
    assert "enforced while decoding: additionalProperties, maxLength, maximum, minimum, properties" in printed
    assert "checked afterwards: uniqueItems" in printed
    assert printed.count("not checked: nothing") == 2


def test_custom_format() -> None:
    printed = run_command("custom_format.py", "--engine", f"llama:{MODEL}")
    assert "format=lantern calls: get_weather {" in printed
    assert f"{HELD} (completion+lark); " in printed
    assert "format lantern" in printed


def test_mcp_filesystem(tmp_path: Path) -> None:
    started = filesystem(tmp_path).transport
    assert isinstance(started, StdioTransport)
    printed = run_command("mcp_filesystem.py", "--server", f"{started.command} {started.args[0]}")
    assert "no approval needed: files_read_file, files_read_text_file" in printed
    assert "approval needed: files_write_file" in printed
    assert 'calls: files_read_text_file {"path": "' in printed
    assert "milk, bread, apples" in printed


def test_http_api() -> None:
    printed = run_command("http_api.py", answer="y\n")
    assert "the shop gets: GET /orders/" in printed
    assert "run cancel_order {'id': " in printed
    assert "the shop gets: DELETE /orders/" in printed


@pytest.mark.parametrize("answer, sent", [("y\n", 1), ("n\n", 0)])
def test_mail_assistant(answer: str, sent: int) -> None:
    printed = run_command("mail_assistant.py", answer=answer)
    assert "send it? [y/n]" in printed
    assert f"\n{sent} sent: [" in printed


def test_database_question() -> None:
    printed = run_command("database_question.py", "--engine", f"llama:{QWEN}")
    assert "\nquery: SELECT " in printed
    assert "\nmodel: " in printed
    assert printed.count("\nrefused: ") == 3


def test_file_editor() -> None:
    printed = run_command("file_editor.py", "--engine", f"llama:{QWEN}", answer="y\n")
    assert "change 'greet.py'? [y/n]" in printed
    assert 'return "Good morning, " + name' in printed


def test_the_file_editor_does_not_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside.txt")
    for name in ("../outside.txt", "link", str(tmp_path / "outside.txt")):
        program = f"from pathlib import Path; from file_editor import path_in; path_in(Path(), {name!r})"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path / "inside",
            env={**os.environ, "PYTHONPATH": str(EXAMPLES)},
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
        assert f"ToolError: {name!r} is outside of the folder" in done.stderr


def test_bus() -> None:
    with nats_server() as server:
        environment = {**os.environ, "FERRULE_NATS": server.url}
        command = [sys.executable, "-m", "bus.worker"]
        # A shell that runs the tests in the background has them ignore SIGINT, and their child processes would too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with subprocess.Popen(command, cwd=EXAMPLES, env=environment, stdout=subprocess.PIPE, text=True) as worker:
            try:
                assert worker.stdout is not None
                assert worker.stdout.readline() == f"serving kitchen.brew@1.0 on {server.url}\n"
                printed = run_command("-m", "bus.ask", FERRULE_NATS=server.url)
            finally:
                worker.send_signal(signal.SIGINT)
            try:
                message, _ = worker.communicate(timeout=60)
            finally:
                # Do not wait for a process that ignores the signal.
                worker.kill()
        assert 'calls: brew {"cups": 3}' in printed
        assert "brew returned: The coffee is ready: 3 cups." in printed
        assert f"process {worker.pid} brewed 3 cups for local\n" in message
        assert (worker.returncode, message.endswith("stopped\n")) == (0, True)


@pytest.fixture(scope="module")
def gateway() -> Generator[str]:
    with gateway_url(engine=f"{SMOL}&format=pythonic") as url:
        yield url


@pytest.mark.parametrize("client", ["openai", "anthropic"])
def test_a_gateways_client(client: str, gateway: str) -> None:
    python = str(ROOT / ".cache" / "venvs" / f"client-{client}" / "bin" / "python")
    printed = run_command(f"gateway_{client}_client.py", "--url", gateway, python=python)
    assert "you, to SmolLM2-135M-Instruct.Q4_1: " in printed
    assert "calls: get_weather {" in printed
    assert "get_weather returned: " in printed
    assert "\nmodel: " in printed
