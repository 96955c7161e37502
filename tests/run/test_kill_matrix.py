"""A conversation of three tool steps, its process killed at every edge: nothing happens twice and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from architecture.source_tree import SRC
from run.ledger_databases import Home

STEPS = ("look", "pay", "post")
CHANGING = STEPS[1:]
LEAST_POINTS = 14


def test_killed_at_any_edge_a_conversation_is_finished_by_another_process_and_no_effect_is_repeated(
    home: Home, tmp_path: Path
) -> None:
    matrix = subprocess.run(
        [sys.executable, Path(__file__).with_name("kill_matrix.py"), home.where, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert (matrix.returncode, matrix.stderr) == (0, "")
    found = [json.loads(line) for line in matrix.stdout.splitlines()]
    assert len(found) >= LEAST_POINTS
    points = [told["point"] for told in found]
    for told in found:
        where = told["point"]
        assert (told["died"], told["ended"]) == (signal.SIGKILL, 0), where
        assert (told["state"], told["last"], told["breach"]) == ("done", "all done", ""), where
        assert told["told"] == [*STEPS], where
        for step in CHANGING:
            happened = told["effects"].count(f"{step} ")
            assert happened <= 1, where
            # Whoever is told nothing else knows that it happened; and nobody is told so for nothing.
            assert happened == 1 or step in told["told_unknown"], where
        assert told["told_unknown"] == lost_at(where, points), where


def lost_at(point: str, points: list[str]) -> list[str]:
    """The step that was begun and not written down as ended when its process died at this point."""
    name, _, what = point.partition(": ")
    _, _, work = name.partition(" ")
    if (work, what) == ("started", "committed") or (work == "finished" and what != "committed"):
        # The n-th call to be started or finished is the n-th step's.
        turns = list(dict.fromkeys(other.partition(": ")[0] for other in points if f" {work}: " in other))
        name = STEPS[turns.index(name)]
    return [name] if name in CHANGING else []
