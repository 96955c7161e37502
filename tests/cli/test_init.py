"""`ferrule init`: what it writes is served as it is, nothing is lost, and questions come on a terminal."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Ran, run
from cli.init_folder import ADDRESS, contents, init, printed_line, reply
from ferrule.cli.init_files import CLIENTS
from lab.gateway_process import gateway_process
from live.scripted_model import scripted_model
from terminal_program import CTRL_D, ENTER, in_terminal
from waiting import PATIENCE

INIT = [sys.executable, "-m", "ferrule", "init"]
OWN = '''
from ferrule import tool


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()
'''


def run_in(folder: Path, *argv: str, **environment: str) -> Ran:
    """Run a command in this process, with a current folder and variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, value)
        return run(*argv)


def curl_parts(line: str) -> tuple[str, str, str]:
    """The URL, the header and the body of a curl command, read as a shell reads them."""
    curl, url, *options = shlex.split(line)
    assert (curl, options[::2]) == ("curl", ["-H", "-d"])
    return url, options[1], options[3]


def check_config(folder: Path) -> str:
    """The table of `ferrule config check`, which must pass."""
    ran = run_in(folder, "config", "check")
    assert ran.code == 0, ran.err
    return ran.out


def test_the_written_gateway_starts_and_the_printed_command_runs_the_written_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_model(reply) as model:
        done = init(tmp_path, "--engine", f"openai:m?url={model.url}")
        assert done.returncode == 0, done.stderr
        assert [line.split("\t")[:2] for line in done.stdout.splitlines() if "\t" in line][1:] == [
            ["loads", "works"],
            ["answer", "works"],
            ["call", "works"],
        ]
        assert sorted(contents(tmp_path)) == ["ferrule.toml", "tools.py"]
        assert "read_notes, add_note (side effects)" in check_config(tmp_path)
        (tmp_path / "notes.txt").write_text("buy bread\n", encoding="utf-8")

        # What `config check` and the gateway read is relative to the folder where they are started.
        monkeypatch.chdir(tmp_path)
        serve = shlex.split(printed_line(done.stdout, "ferrule serve"))
        assert serve[:2] == ["ferrule", "serve"]
        with gateway_process(serve[2:], engine=None) as gateway:
            url, header, body = curl_parts(printed_line(done.stdout, "curl ").replace(ADDRESS, gateway.url))
            request = urllib.request.Request(url, body.encode(), dict([header.split(": ")]))
            with urllib.request.urlopen(request, timeout=PATIENCE) as answered:
                answer: dict[str, Any] = json.load(answered)
    assert answer["choices"][0]["message"]["content"] == "They say: buy bread\n"
    assert model.requests[-2]["tool_choice"] == "required"
    # A weak model would otherwise call the other tool, or write for minutes.
    assert [one["function"]["name"] for one in model.requests[-2]["tools"]] == ["read_notes"]
    assert json.loads(body)["max_tokens"] == 128


@pytest.mark.parametrize("name", CLIENTS)
def test_each_client_gets_a_file_in_the_folder_that_names_the_gateway(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    folder = tmp_path / "gateway"
    home.mkdir()
    folder.mkdir()
    options = ("--engine", "fake:Hello.", "--client", name, "--port", "8123", "--no-doctor")
    done = run_in(folder, "init", *options, HOME=str(home))
    assert done.code == 0, done.err
    assert contents(home) == {}
    files = contents(folder)
    client = CLIENTS[name]
    assert set(files) == {"ferrule.toml", "tools.py", *filter(None, [client.file])}
    assert client.command in done.out
    if client.file:
        assert "http://127.0.0.1:8123" in files[client.file]
        assert "local" in files[client.file]
    read = {".json": json.loads, ".toml": tomllib.loads, ".py": lambda text: compile(text, client.file, "exec")}
    read.get(Path(client.file).suffix, str)(files.get(client.file, ""))
    check_config(folder)


def test_an_agent_gets_an_engine_with_the_context_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    done = run_in(tmp_path, "init", "-e", "llama:model.gguf?slots=3", "--client", "claude-code", "--no-doctor")
    assert done.code == 0, done.err
    engine = tomllib.loads((tmp_path / "ferrule.toml").read_text())["engines"]["local"]
    assert engine == {"use": "llama:model.gguf?slots=3", "context": 32768}
    assert "llama:model.gguf?slots=3&context=32768" in check_config(tmp_path)


def test_your_own_functions_are_used_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(OWN, encoding="utf-8")
    done = run_in(tmp_path, "init", "-e", "fake:Hello.", "--tools", "tools.py", "--no-doctor")
    assert done.code == 0, done.err
    assert contents(tmp_path)["tools.py"] == OWN
    assert "shout" in check_config(tmp_path)


def test_it_asks_on_a_terminal_and_asks_again_after_a_wrong_answer(tmp_path: Path) -> None:
    with (
        scripted_model(reply) as model,
        in_terminal(INIT, tmp_path, {"HOME": str(tmp_path / "home")}, columns=200) as program,
    ):
        program.wait_for("Engine [hf:")
        program.type(f"model.gguf{ENTER}")
        program.wait_for("Write llama:model.gguf.")
        program.wait_for("Engine [hf:")
        program.type(f"openai:m?url={model.url}{ENTER}")
        program.wait_for("[example]: ")
        program.type(ENTER)
        program.wait_for("[curl]: ")
        program.type(f"emacs{ENTER}")
        program.wait_for("unknown client 'emacs'")
        program.wait_for("[curl]: ")
        program.type(f"opencode{ENTER}")
        assert program.wait_for_end() == 0
    assert "Nothing to change." in program.text
    assert "opencode -m ferrule/local" in program.text
    assert {"ferrule.toml", "tools.py", "opencode.json"} <= set(contents(tmp_path))


def test_nothing_is_written_if_the_questions_are_not_answered(tmp_path: Path) -> None:
    with in_terminal(INIT, tmp_path) as program:
        program.wait_for("Engine [hf:")
        program.type(CTRL_D)
        assert program.wait_for_end() == 1
    assert contents(tmp_path) == {}


def test_an_engine_that_does_not_work_is_reported_with_the_next_steps(tmp_path: Path) -> None:
    done = run_in(tmp_path, "init", "-e", "fake:Hello.")
    assert done.code == 1
    assert "call\tfailed" in done.out
    assert "the engine does not work yet; when it does, start the gateway:" in done.out
    assert sorted(contents(tmp_path)) == ["ferrule.toml", "tools.py"]


@pytest.mark.parametrize("name", ["ferrule.toml", "tools.py", "codex/config.toml"])
@pytest.mark.parametrize("how", ["file", "link", "folder"])
def test_a_file_in_the_way_is_kept_and_nothing_is_written(tmp_path: Path, name: str, how: str) -> None:
    folder = tmp_path / "gateway"
    path = folder / name
    path.parent.mkdir(parents=True)
    if how == "file":
        path.write_text("precious", encoding="utf-8")
    elif how == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        (path / "inner").mkdir(parents=True)
    before = contents(tmp_path)
    done = run_in(folder, "init", "-e", "fake:Hello.", "--client", "codex", "--no-doctor")
    assert done.code == 1
    assert f"already here: {name}" in done.err
    assert contents(tmp_path) == before

    done = run_in(folder, "init", "-e", "fake:Hello.", "--client", "codex", "--no-doctor", "--force")
    assert done.code == (1 if how == "folder" else 0), done.err
    if how == "folder":
        assert contents(tmp_path) == before
    else:
        # A link is replaced, not followed.
        assert set(contents(tmp_path)) == {
            f"gateway/{one}" for one in ("ferrule.toml", "tools.py", "codex/config.toml")
        }
        check_config(folder)


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
def test_a_link_to_another_folder_is_not_followed(tmp_path: Path, force: tuple[str, ...]) -> None:
    folder, home = tmp_path / "gateway", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "codex").symlink_to(home)
    before = contents(tmp_path)
    done = run_in(folder, "init", "-e", "fake:Hello.", "--client", "codex", "--no-doctor", *force)
    assert done.code == 1
    assert "codex is a link" in done.err
    assert contents(tmp_path) == before


def test_it_does_not_run_in_the_home_folder(tmp_path: Path) -> None:
    done = run_in(tmp_path, "init", "-e", "fake:Hello.", "--no-doctor", HOME=str(tmp_path))
    assert (done.code, contents(tmp_path)) == (1, {})
    assert "this is your home folder" in done.err


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
def test_a_disk_that_takes_no_more_leaves_everything_as_it_was(tmp_path: Path, force: tuple[str, ...]) -> None:
    if force:
        (tmp_path / "ferrule.toml").write_text("precious", encoding="utf-8")
    before = contents(tmp_path)
    # ferrule.toml fits, tools.py does not.
    limited = ("sh", "-c", 'ulimit -f 1; exec "$@"', "sh")
    done = init(
        tmp_path,
        *("-e", "fake:Hello.", "--no-doctor", *force),
        prefix=limited,
        environment={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (done.returncode, contents(tmp_path)) == (1, before), done.stderr
    assert "the files cannot be written" in done.stderr


def test_a_folder_that_takes_no_file_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    # Permissions do not stop root. A removed folder takes no file of anyone.
    folder = tmp_path / "gone"
    folder.mkdir()
    removed = ("sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh")
    done = init(folder, "-e", "fake:Hello.", "--no-doctor", prefix=removed)
    assert done.returncode == 1
    assert "the files cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "engine",
    [
        "fake:say \"hi\" \\ and 'bye'",
        'fake:x"\n[server]\nhost = "0.0.0.0"\ninsecure = true\n#',
        "fake:tab\tbell\x07delete\x7fline\u2028emoji\U0001f600",
        "fake:$${HOME}",
    ],
)
def test_an_engine_string_with_any_characters_is_the_engine_and_nothing_else(tmp_path: Path, engine: str) -> None:
    done = run_in(tmp_path, "init", "-e", engine, "--no-doctor")
    assert done.code == 0, done.err
    written = tomllib.loads((tmp_path / "ferrule.toml").read_text(encoding="utf-8"))
    assert written == {
        "server": {"port": 8000, "ledger": "ferrule.db"},
        "engines": {"local": {"use": engine}},
        "sources": {"functions": ["tools.py"]},
    }
    check_config(tmp_path)


@pytest.mark.parametrize(
    "options, expected",
    [
        (["-e", "model.gguf"], "Write llama:model.gguf."),
        (["-e", "llama:missing.gguf"], "file not found: missing.gguf"),
        (["-e", "http://127.0.0.1:9"], "is a URL, not an engine"),
        (["-e", "nonsense"], "neither a URL nor an engine"),
        (["-e", os.fsdecode(b"fake:\xff")], "is not UTF-8"),
        (["-e", "openai:m?key=sk-secret"], "write key=${NAME}"),
        (["-e", "openai:m?key=${NOT_SET_ANYWHERE}"], "NOT_SET_ANYWHERE, which is not set"),
        (["-e", "fake:x", "--tools", "missing.py:TOOLS"], "missing.py"),
        (["-e", "fake:x", "--client", "emacs"], "invalid choice: 'emacs'"),
        (["-e", "fake:x", "--port", "0"], "'0' is not a port"),
    ],
)
def test_a_wrong_option_says_what_to_write_and_writes_nothing(
    tmp_path: Path, options: list[str], expected: str
) -> None:
    done = run_in(tmp_path, "init", *options, "--no-doctor")
    assert done.code in (1, 2)
    assert expected in done.err
    assert "sk-secret" not in done.err
    assert contents(tmp_path) == {}


def test_a_key_stays_in_the_environment_and_the_doctor_uses_it(tmp_path: Path) -> None:
    with scripted_model(reply) as model:
        engine = f"openai:m?url={model.url}&key=${{MY_KEY}}"
        done = run_in(tmp_path, "init", "-e", engine, MY_KEY="sk-secret")
    assert done.code == 0, done.err
    assert "sk-secret" not in done.out + done.err + "".join(contents(tmp_path).values())
    assert "${MY_KEY}" in contents(tmp_path)["ferrule.toml"]
