"""A conversation of three tool steps whose process is killed at every point: no effect is repeated or lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from architecture.source_tree import ROOT, SRC
from run.ledger_databases import Database

STEPS = ("look", "pay", "post")
CHANGING = STEPS[1:]
LEAST_POINTS = 14


def test_killed_at_any_edge_a_conversation_is_finished_by_another_process_and_no_effect_is_repeated(
    database: Database, tmp_path: Path
) -> None:
    matrix = subprocess.run(
        [sys.executable, Path(__file__).with_name("kill_matrix.py"), database.argument, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SRC, ROOT / "tests")))},
    )
    assert (matrix.returncode, matrix.stderr) == (0, "")
    reports = [json.loads(line) for line in matrix.stdout.splitlines()]
    assert len(reports) >= LEAST_POINTS
    points = [report["point"] for report in reports]
    for report in reports:
        where = report["point"]
        assert (report["died"], report["ended"]) == (signal.SIGKILL, 0), where
        assert (report["state"], report["last"], report["breach"]) == ("done", "all done", ""), where
        assert report["reported"] == [*STEPS], where
        for step in CHANGING:
            happened = report["effects"].count(f"{step} ")
            assert happened <= 1, where
            # The effect happened unless it is reported as unknown, and unknown is reported only where it must be.
            assert happened == 1 or step in report["reported_unknown"], where
        assert report["reported_unknown"] == lost_at(where, points), where


def lost_at(point: str, points: list[str]) -> list[str]:
    """Return the step that was started and not recorded as ended when its process died at this point."""
    states: dict[str, str] = {}
    for passed in points[: points.index(point) + 1]:
        for kind, call_id in re.findall(r"(started|done|failed)=(\S+)", passed):
            states[call_id] = kind
    # The n-th call to be started is the n-th step's.
    return [step for step, state in zip(STEPS, states.values(), strict=False) if state == "started" if step in CHANGING]
