"""Schemathesis over our own OpenAPI and a running gateway. `scripts/long schemathesis` does the same for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.schemathesis_run import fuzz

pytestmark = pytest.mark.live
# `scripts/long schemathesis` runs for longer.
SECONDS = 30
MIN_CASES = 100

BEGIN_ONE_IN_EACH_WAY = """
import os, subprocess, sys
from lab.fuzz_gateway import log_process_starts
log_process_starts(sys.argv[1])
open(os.devnull).close()
subprocess.run(["true"])
os.system("true")
os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
child = os.fork()
if not child:
    os.execv("/bin/true", ["true"])
os.waitpid(child, 0)
"""


def test_a_process_that_is_begun_in_any_way_is_told(tmp_path: Path) -> None:
    file = tmp_path / "spawned"
    subprocess.run([sys.executable, "-c", BEGIN_ONE_IN_EACH_WAY, str(file)], check=True)
    events = [line.split()[0] for line in file.read_text().splitlines()]
    assert events == ["subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.exec"]


def test_whatever_is_sent_the_server_does_not_fail_nor_hang_nor_start_a_process() -> None:
    result = fuzz(SECONDS)
    if not result.has_tried_all or result.cases <= MIN_CASES:
        # On a busy machine the time is too short to reach every operation. It measures nothing: give it more.
        result = fuzz(10 * SECONDS)
    assert result.is_clean, "\n".join(result.lines())
    assert result.cases > MIN_CASES
