"""A conversation of three tool steps whose process is frozen at every point, replaced, and woken again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from architecture.source_tree import ROOT, SRC
from run.freeze_matrix import GAVE_UP
from run.ledger_databases import Database

STEPS = ("look", "pay", "post")
CHANGING = STEPS[1:]
LIMITS = {"sqlite": "", "postgres": "%20-cidle_in_transaction_session_timeout%3D1s"}


def test_frozen_at_any_point_an_owner_is_replaced_while_it_sleeps_and_does_nothing_more_when_it_wakes(
    single_database: Database, tmp_path: Path
) -> None:
    limit = LIMITS["postgres" if single_database.argument.startswith("postgresql:") else "sqlite"]
    matrix = subprocess.run(
        [sys.executable, Path(__file__).with_name("freeze_matrix.py"), single_database.argument, tmp_path, limit],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SRC, ROOT, ROOT / "tests")))},
    )
    assert matrix.returncode == 0, matrix.stderr
    reports = [json.loads(line) for line in matrix.stdout.splitlines()]
    assert any("effect" in report["point"] for report in reports)
    assert any("statement" in report["point"] for report in reports)
    assert any("step" in report["point"] for report in reports)
    for report in reports:
        where = report["point"]
        # The successor ended the conversation, and the audit is whole.
        assert report["ended"] == 0, (where, matrix.stderr)
        assert (report["state"], report["last"], report["breach"]) == ("done", "all done", ""), where
        assert report["reported"] == [*STEPS], where
        for step in CHANGING:
            assert report["effects"].count(f"{step} ") <= 1, where
            # It happened, or the model was told that it is not known.
            assert report["effects"].count(f"{step} ") == 1 or step in report["reported_unknown"], where
        # A process that wakes in the middle is told that the conversation is no longer its own.
        assert report["woke"] in (0, GAVE_UP), where
