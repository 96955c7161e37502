"""Several worker processes on one port, and their supervisor."""

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
from ferrule.server.config.config import ServerConfig
from ferrule.server.process.server import open_port
from waiting import eventually

TESTS = Path(__file__).parents[1]


@dataclass(slots=True)
class Supervisor:
    process: subprocess.Popen[str]
    port: int
    folder: Path

    def connect(self) -> tuple[int, int]:
        """The number and the PID of the worker that answers."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            number, pid = connection.recv(100).split()
        return int(number), int(pid)

    def wait_for_both(self) -> dict[int, int]:
        pids: dict[int, int] = {}
        deadline = time.monotonic() + 60
        while len(pids) < 2 and time.monotonic() < deadline:
            number, pid = self.connect()
            pids[number] = pid
        return pids


@contextmanager
def start_supervisor(work: str, folder: Path, count: int = 2) -> Generator[Supervisor]:
    process = subprocess.Popen(
        [sys.executable, "-c", "from server.worker_work import main; main()", work, str(folder), str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield Supervisor(process, int(line or 0), folder)
    finally:
        process.kill()
        process.communicate()


def wait_for_exit(supervisor: Supervisor) -> tuple[int, list[dict[str, object]]]:
    """The exit code and the log lines."""
    _, errors = supervisor.process.communicate(timeout=60)
    return supervisor.process.returncode, [json.loads(line) for line in errors.splitlines() if line.startswith("{")]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_workers_share_a_port_and_a_killed_worker_is_restarted(tmp_path: Path) -> None:
    with start_supervisor("serve_number", tmp_path) as workers:
        before = workers.wait_for_both()
        os.kill(before[1], signal.SIGKILL)
        # The port stays open meanwhile: every connection is answered.
        eventually(lambda: workers.connect() not in ((0, before[0]), (1, before[1])))
        workers.process.send_signal(signal.SIGTERM)
        code, lines = wait_for_exit(workers)
    assert code == 0
    (death,) = [line for line in lines if line["event"] == "worker_died"]
    assert (death["worker"], death["pid"], death["exit"]) == (1, before[1], -9)
    assert [line["worker"] for line in lines if line["event"] == "worker_started"] == [0, 1, 1]
    assert len(list(tmp_path.glob("*.ended"))) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_workers_gracefully(tmp_path: Path, number: signal.Signals) -> None:
    with start_supervisor("serve_number", tmp_path) as workers:
        pids = workers.wait_for_both().values()
        workers.process.send_signal(number)
        code, _ = wait_for_exit(workers)
        assert code == 0
        assert {int(mark.stem) for mark in tmp_path.glob("*.ended")} == set(pids)
        assert not any(is_alive(pid) for pid in pids)


def test_connections_are_refused_as_soon_as_no_worker_serves_and_not_held_until_all_have_ended(tmp_path: Path) -> None:
    with start_supervisor("close_and_linger", tmp_path) as workers:
        workers.wait_for_both()
        workers.process.send_signal(signal.SIGTERM)
        eventually(lambda: len(list(tmp_path.glob("*.closed"))) == 2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", workers.port), timeout=30)
        (tmp_path / "end").touch()
        assert wait_for_exit(workers)[0] == 0


def test_a_worker_that_cannot_start_is_not_restarted(tmp_path: Path) -> None:
    with start_supervisor("fail_to_start", tmp_path) as workers:
        code, lines = wait_for_exit(workers)
    assert code == 1
    assert len(list(tmp_path.glob("*.tried"))) <= 2
    assert {line["exit"] for line in lines if line["event"] == "worker_died"} == {3}


def test_a_worker_that_keeps_dying_is_restarted_with_backoff(tmp_path: Path) -> None:
    with start_supervisor("exit_at_once", tmp_path, 1) as workers:
        eventually(lambda: len(list(tmp_path.glob("*.began"))) >= 4)
        workers.process.send_signal(signal.SIGTERM)
        wait_for_exit(workers)
    moments = sorted(int(mark.stem) for mark in tmp_path.glob("*.began"))
    pauses = [(later - earlier) / 1e9 for earlier, later in pairwise(moments)]
    # The delay doubles each time: 0.25, 0.5, 1 second, plus the time to start.
    assert all(pause >= least for pause, least in zip(pauses, [0.25, 0.5, 1.0], strict=False))


def test_workers_stop_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with start_supervisor("serve_number", tmp_path) as workers:
        pids = list(workers.wait_for_both().values())
        workers.process.kill()
        workers.process.wait()
        eventually(lambda: not any(is_alive(pid) for pid in pids))
    assert len(list(tmp_path.glob("*.ended"))) == 2


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(DefinitionError, match=f"cannot listen on 127.0.0.1:{port}"):
            open_port(ServerConfig(port=port))
