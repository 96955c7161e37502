"""`ferrule worker`, `ferrule capabilities` and the Python code in docs/how-to/bus.md, run as a user does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.bus_server import NatsServer, nats_server
from live.bus_parts import worker_process
from waiting import PATIENCE, eventually

pytestmark = pytest.mark.live
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "bus.md").read_text(encoding="utf-8")
TOOLS, CALLER = re.findall(r"^```python live\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SLOW = """
import time
from pathlib import Path

def slow(seconds: float) -> str:
    Path("begun").touch()
    time.sleep(seconds)
    return "finished"
"""


def ferrule(*options: str, place: Path, server: NatsServer) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options],
        cwd=place,
        env={**os.environ, "FERRULE_NATS": server.url},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def worker(*options: str, place: Path, server: NatsServer) -> Generator[subprocess.Popen[str]]:
    with worker_process(*options, "--nats", server.url, cwd=place, stderr=subprocess.PIPE) as process:
        yield process


def test_the_page_is_right(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "caller.py").write_text(CALLER, encoding="utf-8")
    with nats_server() as server, worker("tools.py:TOOLS", "--cap", "8", place=tmp_path, server=server):
        ran = ferrule("caller.py", place=tmp_path, server=server)
        assert ran.returncode == 0, ran.stderr
        assert "['brew', 'order']" in ran.stdout
        assert "total=2, message='brewing', approval='')" in ran.stdout
        assert "Answered(content='2 cups of coffee'" in ran.stdout
        listed = ferrule("-m", "ferrule", "capabilities", place=tmp_path, server=server)
        assert "kitchen.brew@1.0" in listed.stdout
        page = ferrule("-m", "ferrule", "capabilities", "--json", place=tmp_path, server=server)
        rows = {row["capability"]: row for row in json.loads(page.stdout)}
        assert rows["kitchen.brew@1.0"]["requests"] == 1
        assert rows["kitchen.order@1.0"]["side_effects"] is True
        assert rows["kitchen.order@1.0"]["workers"] == 1


def test_a_function_that_is_bound_to_nothing_is_served_under_the_servers_name(tmp_path: Path) -> None:
    (tmp_path / "slow_tools.py").write_text(SLOW, encoding="utf-8")
    with (
        nats_server() as server,
        worker("slow_tools.py:slow", "--server", "kitchen", place=tmp_path, server=server) as running,
    ):
        listed = ferrule("-m", "ferrule", "capabilities", "--json", place=tmp_path, server=server)
        assert [row["capability"] for row in json.loads(listed.stdout)] == ["kitchen.slow@1.0"]
        program = CALLER.replace('bus.call("brew", {"cups": 2}', 'bus.call("slow", {"seconds": 1.5}')
        (tmp_path / "caller.py").write_text(program, encoding="utf-8")
        command = [sys.executable, "caller.py"]
        environment = {**os.environ, "FERRULE_NATS": server.url}
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as caller:
            eventually((tmp_path / "begun").exists)
            running.send_signal(signal.SIGTERM)
            assert caller.stdout is not None
            assert "Answered(content='finished'" in caller.stdout.read()
        assert running.wait(PATIENCE) == 0


def test_no_workers_and_no_server_are_reported(tmp_path: Path) -> None:
    with nats_server() as server:
        empty = ferrule("-m", "ferrule", "capabilities", place=tmp_path, server=server)
        assert (empty.returncode, empty.stdout) == (0, "no worker serves anything\n")
        server.stop()
        missing = ferrule("-m", "ferrule", "capabilities", place=tmp_path, server=server)
        assert missing.returncode == 1
        assert missing.stderr.startswith("error: cannot connect to NATS at nats://127.0.0.1")
        assert "Traceback" not in missing.stderr
