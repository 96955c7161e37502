"""A ledger with work in it is copied with the commands of backup.md, and another gateway continues with the copy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lab.paths import ROOT
from run.ledger_databases import database_at, postgres_cluster
from run.old_ledger import write_old_ledger
from server.gateway_process import GatewayProcess, gateway_with_config
from server.keys import key
from waiting import eventually

pytestmark = pytest.mark.live
PAGE = ROOT / "docs" / "how-to" / "backup.md"
KEY = "ann"
TOOLS = '''
import threading
from pathlib import Path

from ferrule import tool

def note(line: str) -> None:
    with Path({effects!r}).open("a") as out:
        out.write(line + "\\n")

@tool(side_effects=True)
def pay(line: str) -> str:
    """Pays."""
    note(line)
    return "paid " + line

@tool(side_effects=True)
def transfer(line: str) -> str:
    """Transfers, and is never told how it went."""
    note(line)
    threading.Event().wait()
    return "never"
'''


@dataclass(frozen=True, slots=True)
class Place:
    """A ledger, the place of its copy, and the commands that make and restore the copy."""

    ledger: str
    copy: str
    commands: tuple[str, ...]
    variables: dict[str, str]

    def back_up(self) -> None:
        self._run(self.commands[0])

    def restore(self) -> None:
        for command in self.commands[1:]:
            self._run(command)

    def _run(self, command: str) -> None:
        programs = os.pathsep.join([str(Path(sys.executable).parent), *_postgres_programs(), os.environ["PATH"]])
        environment = {**os.environ, **self.variables, "PATH": programs}
        done = subprocess.run(["sh", "-ec", command], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _postgres_programs() -> list[str]:
    """Debian keeps the newest server's programs out of the path. A dump must be made by one that is no older."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    return [str(folders[-1])] if folders else []


def commands(mark: str) -> tuple[str, ...]:
    """The commands of the page whose block begins with a comment that has this word, without their comments."""
    blocks = re.findall(r"^```sh\n(# .*\n(?:.+\n)+?)```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    (block,) = [one for one in blocks if mark in one.splitlines()[0]]
    return tuple(line for line in block.splitlines() if not line.startswith("#"))


@contextmanager
def sqlite(folder: Path) -> Generator[Place]:
    ledger, copy = folder / "ledger.db", folder / "restored" / "ledger.db"
    copy.parent.mkdir()
    variables = {"LEDGER": str(ledger), "BACKUP": str(folder / "backup.db"), "RESTORED": str(copy)}
    yield Place(str(ledger), str(copy), commands("SQLite"), variables)


@contextmanager
def postgres(folder: Path) -> Generator[Place]:
    with postgres_cluster() as cluster:
        dsn = "postgresql://postgres@/{}?host=" + str(cluster)
        with psycopg.connect(dsn.format("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE ferrule")
            connection.execute("CREATE DATABASE restored")
        ledger, copy = dsn.format("ferrule"), dsn.format("restored")
        variables = {"LEDGER": ledger, "BACKUP": str(folder / "ledger.dump"), "RESTORED": copy}
        yield Place(ledger, copy, commands("Postgres"), variables)


@contextmanager
def gateway(folder: Path, ledger: str, tools: Path) -> Generator[GatewayProcess]:
    folder.mkdir()
    config = [
        '[engines.e]\nuse = "fake:Hello."',
        f'[server]\nport = 0\nlease_seconds = 2\nledger = "{ledger}"',
        f'[sources]\nfunctions = ["{tools}"]',
        f'[keys.{KEY}]\nsha256 = "{key(KEY).sha256}"\ntools = ["*"]\napprove = true\nadmin = true',
    ]
    with gateway_with_config(folder, "\n".join(config)) as made:
        yield made


def call(made: GatewayProcess, name: str, tool: str = "pay") -> tuple[int, Any]:
    body = {"name": tool, "arguments": {"line": name}, "call_id": name, "conversation": f"of-{name}"}
    return made.request("POST", "/v1/tools/call", body, KEY)


def approve(made: GatewayProcess, name: str, tool: str = "pay") -> None:
    """Make the call, which has to wait, and approve it. That does not begin it."""
    status, waiting = call(made, name, tool)
    assert status == 202
    approval = f"/v1/approvals/{waiting['approval']['id']}"
    assert made.request("POST", approval, {"approve": True}, KEY)[0] == 200


def ferrule(*arguments: str, exit_code: int = 0) -> str:
    command = [sys.executable, "-m", "ferrule", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("place", [sqlite, postgres])
def test_a_gateway_on_a_restored_ledger_continues_and_no_effect_happens_twice(place: Any, tmp_path: Path) -> None:
    effects, tools = tmp_path / "effects", tmp_path / "tools.py"
    effects.touch()
    tools.write_text(TOOLS.format(effects=str(effects)), encoding="utf-8")

    def happened() -> Counter[str]:
        return Counter(effects.read_text(encoding="utf-8").split())

    def paid(made: GatewayProcess, name: str) -> bool:
        """Whether a repeated call has its result. It says "call_running" as long as the gateway runs it by itself."""
        return call(made, name)[1].get("content") == f"paid {name}"

    with place(tmp_path) as where:
        with gateway(tmp_path / "first", where.ledger, tools) as first:
            approvals = {name: call(first, name)[1]["approval"]["id"] for name in ("pending", "approved")}
            approve(first, "done")
            eventually(lambda: paid(first, "done"))
            approve(first, "begun", "transfer")
            # It is in the middle of its effect when the copy is made, and for ever.
            eventually(lambda: "begun" in happened())
            where.back_up()
            approve(first, "later")
            eventually(lambda: paid(first, "later"))
            first.process.kill()
            first.process.wait()
        where.restore()
        ferrule("ledger", "check", "--ledger", where.copy)
        ferrule("approvals", "approve", approvals["approved"], "--by", "bob", "--ledger", where.copy)
        with gateway(tmp_path / "second", where.copy, tools) as second:
            # What was approved and had not begun runs without being repeated.
            eventually(lambda: "approved" in happened())
            # What had ended has its result.
            assert paid(second, "done")
            # What had begun may have happened, as it has, and is not begun again.
            eventually(lambda: call(second, "begun", "transfer")[1].get("outcome") == "unknown")
            # What waited can still be decided.
            decision = second.request("POST", f"/v1/approvals/{approvals['pending']}", {"approve": True}, KEY)
            assert decision[0] == 200
            for name in ("pending", "approved", "done", "pending", "approved"):
                eventually(lambda name=name: paid(second, name))
            # What was made after the copy is forgotten. A person is asked before it happens again.
            assert call(second, "later")[0] == 202
    assert happened() == Counter({"done": 1, "begun": 1, "later": 1, "approved": 1, "pending": 1})


@pytest.mark.parametrize("place", [sqlite, postgres])
def test_the_ledger_of_release_0_1_0_is_upgraded_after_a_backup_that_still_has_the_earlier_version(
    place: Any, tmp_path: Path
) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.format(effects=str(tmp_path / "effects")), encoding="utf-8")

    def approvals(ledger: str) -> list[dict[str, Any]]:
        return json.loads(ferrule("approvals", "list", "--all", "--json", "--ledger", ledger))

    with place(tmp_path) as where:
        write_old_ledger(database_at(where.ledger))
        where.back_up()
        ferrule("ledger", "check", "--ledger", where.ledger, exit_code=1)
        ferrule("ledger", "migrate", "--ledger", where.ledger)
        ferrule("ledger", "check", "--ledger", where.ledger)
        assert [one["conversation"] for one in approvals(where.ledger)] == ["ended", "waiting"]
        with gateway(tmp_path / "new", where.ledger, tmp_path / "tools.py") as made:
            assert made.request("GET", "/readyz", who=KEY)[1]["ledger"] == "answers"
        # To go back: the copy is as it was. A gateway raises it too, without `migrate`.
        where.restore()
        ferrule("ledger", "check", "--ledger", where.copy, exit_code=1)
        with gateway(tmp_path / "again", where.copy, tmp_path / "tools.py"):
            ferrule("ledger", "check", "--ledger", where.copy)
        assert approvals(where.copy) == approvals(where.ledger)


def test_the_page_names_programs_that_are_there() -> None:
    programs = {line.split()[0] for mark in ("SQLite", "Postgres") for line in commands(mark)}
    path = os.pathsep.join([str(Path(sys.executable).parent), *_postgres_programs(), os.environ["PATH"]])
    assert all(shutil.which(program, path=path) for program in programs), programs
