"""Reloading a `ferrule serve` process: its configuration, its tools and its engines, while it serves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from server.gateway_process import ANN, EVE, GatewayProcess, gateway_with_config
from server.keys import key
from waiting import eventually

TOOLS = '''
import time
from pathlib import Path

from ferrule import tool

HERE = Path(__file__).parent


@tool(isolation="none")
def wait() -> str:
    """Waits for a file."""
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        time.sleep(0.02)
    return "waited in the old module"
'''
NEW_TOOLS = TOOLS.replace("def wait", "def other").replace("old module", "new module")


@dataclass(frozen=True, slots=True)
class Reloaded:
    folder: Path
    gateway: GatewayProcess

    def write(self, *more: str, engines: str = '[engines.e0]\nuse = "fake:Hello."', workers: int = 1) -> None:
        write_config(self.folder, *more, engines=engines, workers=workers)

    def tools(self) -> set[str]:
        return {one["name"] for one in self.gateway.request("GET", "/v1/tools")[1]["data"]}

    def models(self, who: str = ANN) -> set[str]:
        code, body = self.gateway.request("GET", "/v1/models", who=who)
        return {one["id"] for one in body["data"]} if code == 200 else set()

    def reload(self, who: str = ANN) -> tuple[int, Any]:
        return self.gateway.request("POST", "/v1/reload", who=who)

    def hang_up(self) -> None:
        os.kill(self.gateway.process.pid, signal.SIGHUP)

    def log(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.gateway.lines() if line["event"] == event]


def write_config(folder: Path, *more: str, engines: str, workers: int = 1) -> str:
    names = [f'[keys.{ANN}]\nsha256 = "{key(ANN).sha256}"\ntools = ["*"]\nadmin = true']
    server = f'[server]\nport = 0\ndrain_seconds = 1\nworkers = {workers}\nledger = "{folder / "ledger.db"}"'
    sources = f'[sources]\nfunctions = ["{folder / "my_tools.py"}"]'
    text = "\n".join([engines, server, sources, *names, *more])
    (folder / "ferrule.toml").write_text(text)
    return text


@contextmanager
def serving(folder: Path, *flags: str, workers: int = 1) -> Generator[Reloaded]:
    (folder / "my_tools.py").write_text(TOOLS)
    text = write_config(folder, engines='[engines.e0]\nuse = "fake:Hello."', workers=workers)
    with gateway_with_config(folder, text, *flags) as gateway:
        yield Reloaded(folder, gateway)


def test_a_reload_takes_up_engines_tools_and_keys_in_one_request(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert (served.tools(), served.models(), served.models(EVE)) == ({"wait"}, {"e0"}, set())
        (tmp_path / "my_tools.py").write_text(NEW_TOOLS)
        eve = f'[keys.{EVE}]\nsha256 = "{key(EVE).sha256}"'
        served.write(eve, engines='[engines.e1]\nuse = "fake:Bye."')
        code, report = served.reload()
        assert (code, report["models"], report["tools"]) == (200, ["e1"], 1)
        assert report["changed"] == ["engines", "keys"]
        assert (served.tools(), served.models(), served.models(EVE)) == ({"other"}, {"e1"}, {"e1"})
        body = {"model": "e1", "messages": [{"role": "user", "content": "Hi"}]}
        answer = served.gateway.request("POST", "/v1/chat/completions", body, EVE)[1]
        assert answer["choices"][0]["message"]["content"] == "Bye."
        # A key that is gone from the file is gone.
        served.write()
        assert served.reload()[0] == 200
        assert served.gateway.request("GET", "/v1/models", who=EVE)[0] == 401
        assert served.reload(EVE)[0] == 401


def test_a_call_that_runs_finishes_on_what_it_began_with(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        results: list[Any] = []
        call = threading.Thread(target=lambda: results.append(served.gateway.call("wait")))
        call.start()
        eventually((tmp_path / "begun").exists)
        (tmp_path / "my_tools.py").write_text(NEW_TOOLS)
        assert served.reload()[0] == 200
        assert served.tools() == {"other"}
        assert not results
        (tmp_path / "go").touch()
        call.join()
        code, result = results[0]
        assert code == 200
        assert "waited in the old module" in str(result)
        assert "waited in the new module" in str(served.gateway.call("other"))


@pytest.mark.parametrize(
    "mistake, reason",
    [
        ("a syntax error in the tools", "invalid syntax"),
        ("a name error in the tools", "no_such_name"),
        ("an unknown setting", "no_such_setting"),
        ("an unknown engine", "nonsense"),
        ("another port", "server.port"),
    ],
)
def test_a_bad_configuration_changes_nothing_and_says_why(tmp_path: Path, mistake: str, reason: str) -> None:
    with serving(tmp_path) as served:
        # Beside what is wrong, there is something that would be new.
        more = '[engines.e1]\nuse = "fake:Bye."'
        engines = f'[engines.e0]\nuse = "fake:Hello."\n{more}'
        match mistake:
            case "a syntax error in the tools":
                (tmp_path / "my_tools.py").write_text("def :")
                served.write(engines=engines)
            case "a name error in the tools":
                (tmp_path / "my_tools.py").write_text(NEW_TOOLS + "no_such_name\n")
                served.write(engines=engines)
            case "an unknown setting":
                served.write("[search]\nno_such_setting = 1", engines=engines)
            case "an unknown engine":
                served.write(engines=f'{engines}\n[engines.e2]\nuse = "nonsense:x"')
            case _:
                text = write_config(tmp_path, engines=engines)
                (tmp_path / "ferrule.toml").write_text(text.replace("port = 0", "port = 1"))
        code, body = served.reload()
        assert (code, reason in body["error"]["message"]) == (400, True), body
        assert any(reason in line["detail"] for line in served.log("reload_failed"))
        assert (served.tools(), served.models()) == ({"wait"}, {"e0"})
        # Corrected, it is taken up, also by the signal.
        (tmp_path / "my_tools.py").write_text(NEW_TOOLS)
        served.write(engines=engines)
        served.hang_up()
        eventually(lambda: served.tools() == {"other"})
        assert served.models() == {"e0", "e1"}
        assert served.gateway.process.poll() is None


def test_watched_files_are_taken_up_as_soon_as_they_are_saved(tmp_path: Path) -> None:
    with serving(tmp_path, "--watch") as served:
        (tmp_path / "my_tools.py").write_text(NEW_TOOLS)
        eventually(lambda: served.tools() == {"other"})
        (tmp_path / "my_tools.py").write_text("def :")
        eventually(lambda: bool(served.log("reload_failed")))
        assert served.tools() == {"other"}
        served.write(engines='[engines.e0]\nuse = "fake:Hello."\n[engines.e1]\nuse = "fake:Bye."')
        (tmp_path / "my_tools.py").write_text(TOOLS)
        eventually(lambda: (served.tools(), served.models()) == ({"wait"}, {"e0", "e1"}))


def test_a_request_to_one_worker_reloads_all_and_those_that_start_later(tmp_path: Path) -> None:
    with serving(tmp_path, workers=2) as served:
        eventually(lambda: len(served.log("start")) == 2)
        (tmp_path / "my_tools.py").write_text(NEW_TOOLS)
        served.write(engines='[engines.e1]\nuse = "fake:Bye."', workers=2)
        assert served.reload()[0] == 200
        first = {line["pid"] for line in served.log("start")}
        # Each worker has its own; connections go to either.
        eventually(lambda: len(served.log("reloaded")) >= 2 and all(served.models() == {"e1"} for _ in range(8)))
        assert served.tools() == {"other"}
        os.kill(min(first), signal.SIGKILL)
        eventually(lambda: len({line["pid"] for line in served.log("start")}) == 3)
        assert all(served.models() == {"e1"} for _ in range(8))
        # The supervisor takes the signal too, and a mistake reaches no worker.
        (tmp_path / "ferrule.toml").write_text("nonsense")
        served.hang_up()
        eventually(lambda: bool(served.log("reload_failed")))
        assert served.models() == {"e1"}
        served.write(workers=2)
        served.hang_up()
        eventually(lambda: all(served.models() == {"e0"} for _ in range(8)))
