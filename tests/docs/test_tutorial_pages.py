"""The tutorial's pages about a gateway and about many tools, as a user follows them.

Their files are saved under their names, and their commands run in order. A script takes the place of the model, so that
no model is needed; what it would write is on the pages. The other pages are followed by tests/live/test_tutorial.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.init_folder import init
from docs.pages import DOCS
from lab.gateway_process import gateway_process
from live.scripted_model import Said, results_in, scripted_model
from waiting import eventually

PRINTED_URL = "http://127.0.0.1:8000"
PRINTED_ENGINE = "llama:model.gguf"
AGENT, MANY = ((DOCS / "tutorial" / f"{name}.md").read_text(encoding="utf-8") for name in ("your-agent", "many-tools"))
LISTING = f'curl -s "{PRINTED_URL}/v1/traces?limit=1"'
CONSOLE = re.compile(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", re.MULTILINE)


def save_files(page: str, folder: Path) -> None:
    for name, code in re.findall(r"^```python live\n# (\S+\.py)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        (folder / name).write_text(code, encoding="utf-8")


def block(page: str, language: str) -> str:
    """The only block of a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return text


def printed(page: str, command: str) -> str:
    """What the page shows below a command."""
    (output,) = [output for line, output in CONSOLE.findall(page) if line == command]
    return output


def output_of(command: str, folder: Path, url: str = PRINTED_URL) -> str:
    """The output of a command of a page; `url` is where its gateway listens."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}
    for path in folder.glob("*.py"):
        path.write_text(path.read_text(encoding="utf-8").replace(PRINTED_URL, url), encoding="utf-8")
    ran = subprocess.run(
        ["bash", "-ec", command.replace(PRINTED_URL, url)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def words(text: str) -> list[str]:
    return text.split()


def agent_reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
    """Makes the doctor's call, and writes the file that the program of the page asks for."""
    if "get_weather" in names:
        return Said("", [("get_weather", {"city": "Rome"})])
    return Said("", [("write", {"path": "hello.py", "content": 'print("hello")'})]) if "write" in names else Said("Hi.")


def searching_reply(messages: list[dict[str, Any]], _names: list[str]) -> Said:
    results = results_in(messages)
    if not results:
        return Said("", [("find_tools", {"query": "state of a parcel"})])
    return Said("", [("get_parcel", {"number": 7})]) if len(results) == 1 else Said(results[-1])


def test_the_files_for_an_agent_are_those_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    command = f"ferrule init --engine {PRINTED_ENGINE} --client opencode"
    shown = printed(AGENT, command)
    assert output_of(f"{command} --no-doctor", tmp_path).startswith(shown)
    assert (tmp_path / "ferrule.toml").read_text(encoding="utf-8") == block(AGENT, "toml live")
    assert json.loads((tmp_path / "opencode.json").read_text(encoding="utf-8")) == json.loads(block(AGENT, "json"))


def test_an_agent_gets_whole_calls_of_its_own_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_model(agent_reply) as model:
        done = init(tmp_path, "--engine", f"openai:m?url={model.url}", "--client", "opencode")
        assert done.returncode == 0, done.stderr
        save_files(AGENT, tmp_path)
        monkeypatch.chdir(tmp_path)
        with gateway_process(["--config", "ferrule.toml"], engine=None) as gateway:
            shown = printed(AGENT, "ferrule serve --config ferrule.toml").replace(PRINTED_URL, gateway.url)
            assert shown in gateway.log.read_text(encoding="utf-8")
            # A provider's API takes no grammar.
            expected = printed(AGENT, "python ask.py").replace("by grammar", "by validated")
            assert output_of("python ask.py", tmp_path, gateway.url) == expected
            # Requests are recorded behind their answers.
            eventually(lambda: '"id"' in output_of(LISTING, tmp_path, gateway.url))
            (trace,) = json.loads(output_of(LISTING, tmp_path, gateway.url))["data"]
        assert model.tool_names() == ["write"]
    command = "ferrule trace TRACE --ledger ferrule.db"
    assert f"$ {command}\n" in AGENT
    assert "completed" in words(output_of(command.replace("TRACE", trace["id"]), tmp_path))


@pytest.mark.parametrize(
    "command",
    [
        'ferrule tools search "what is the state of parcel 7" --tools catalog.py:TOOLS --limit 1',
        "python search.py",
        "python many.py",
    ],
)
def test_a_catalog_is_searched_as_the_page_shows(command: str, tmp_path: Path) -> None:
    save_files(MANY, tmp_path)
    assert words(output_of(command, tmp_path)) == words(printed(MANY, command))


def test_a_gateway_searches_its_catalog_for_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_files(MANY, tmp_path)
    with scripted_model(searching_reply) as model:
        config = block(MANY, "toml live").replace(PRINTED_ENGINE, f"openai:m?url={model.url}")
        (tmp_path / "ferrule.toml").write_text(config, encoding="utf-8")
        assert output_of("ferrule config check", tmp_path).endswith("ok\n")
        monkeypatch.chdir(tmp_path)
        with gateway_process(engine=None) as gateway:
            assert output_of("python ask.py", tmp_path, gateway.url) == printed(MANY, "python ask.py")
            stats = output_of(f"ferrule tools stats --gateway {PRINTED_URL}", tmp_path, gateway.url)
        assert {"find_tools", "get_order"} <= set(model.tool_names(0))
        assert len(model.tool_names(0)) < 10
    tokens = {row[0]: int(row[-1]) for row in map(words, stats.splitlines()) if row and row[0].endswith("_parcel")}
    # "About 12,000 tokens" for four tools of each thing.
    assert 11_000 < 50 * (sum(tokens.values()) + tokens["get_parcel"]) < 13_000
