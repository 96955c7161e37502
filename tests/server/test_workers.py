"""Several processes on one port, watched over by another."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from ferrule.errors import DefinitionError
from ferrule.server.config.config import Listening
from ferrule.server.process.port import opened_port
from waiting import eventually

TESTS = Path(__file__).parents[1]


@dataclass(slots=True)
class Running:
    process: subprocess.Popen[str]
    port: int
    marks: Path

    def asked(self) -> tuple[int, int]:
        """The number and the process of whoever answers."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            number, pid = connection.recv(100).split()
        return int(number), int(pid)

    def until_both(self) -> dict[int, int]:
        found: dict[int, int] = {}
        until = time.monotonic() + 60
        while len(found) < 2 and time.monotonic() < until:
            number, pid = self.asked()
            found[number] = pid
        return found


@contextmanager
def running(work: str, marks: Path, count: int = 2) -> Generator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-c", "from server.worker_work import main; main()", work, str(marks), str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield Running(process, int(line or 0), marks)
    finally:
        process.kill()
        process.communicate()


def ended(running: Running) -> tuple[int, list[dict[str, object]]]:
    """The exit code, and what was logged."""
    _, errors = running.process.communicate(timeout=60)
    return running.process.returncode, [json.loads(line) for line in errors.splitlines() if line.startswith("{")]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_workers_share_a_port_and_one_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with running("answers", tmp_path) as workers:
        before = workers.until_both()
        os.kill(before[1], signal.SIGKILL)
        # The port is never closed meanwhile: every one of these is answered.
        eventually(lambda: workers.asked() not in ((0, before[0]), (1, before[1])))
        workers.process.send_signal(signal.SIGTERM)
        code, lines = ended(workers)
    assert code == 0
    (death,) = [line for line in lines if line["event"] == "worker_died"]
    assert (death["worker"], death["pid"], death["exit"]) == (1, before[1], -9)
    assert [line["worker"] for line in lines if line["event"] == "worker_started"] == [0, 1, 1]
    assert len(list(tmp_path.glob("*.ended"))) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_of_them_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with running("answers", tmp_path) as workers:
        pids = workers.until_both().values()
        workers.process.send_signal(number)
        code, _ = ended(workers)
        assert code == 0
        assert {int(mark.stem) for mark in tmp_path.glob("*.ended")} == set(pids)
        assert not any(is_alive(pid) for pid in pids)


def test_what_cannot_start_is_not_tried_again_and_again(tmp_path: Path) -> None:
    with running("cannot_start", tmp_path) as workers:
        code, lines = ended(workers)
    assert code == 1
    assert len(list(tmp_path.glob("*.tried"))) <= 2
    assert {line["exit"] for line in lines if line["event"] == "worker_died"} == {3}


def test_one_that_dies_again_and_again_is_started_more_and_more_seldom(tmp_path: Path) -> None:
    with running("dies_at_once", tmp_path, 1) as workers:
        eventually(lambda: len(list(tmp_path.glob("*.began"))) >= 4)
        workers.process.send_signal(signal.SIGTERM)
        ended(workers)
    moments = sorted(int(mark.stem) for mark in tmp_path.glob("*.began"))
    pauses = [(later - earlier) / 1e9 for earlier, later in pairwise(moments)]
    # Twice the rest before, whatever it takes to start: 0.25, 0.5, 1 second.
    assert all(pause >= least for pause, least in zip(pauses, [0.25, 0.5, 1.0], strict=False))


def test_workers_whose_watcher_is_killed_end_by_themselves(tmp_path: Path) -> None:
    with running("answers", tmp_path) as workers:
        pids = list(workers.until_both().values())
        workers.process.kill()
        workers.process.wait()
        eventually(lambda: not any(is_alive(pid) for pid in pids))
    assert len(list(tmp_path.glob("*.ended"))) == 2


def test_a_port_that_is_taken_is_said_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DefinitionError, match=f"127.0.0.1:{port} cannot be listened on"):
            opened_port(Listening(port=port))
