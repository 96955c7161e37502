"""Killed at any point: the effect happens at most once, and the next owner knows what may have happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.source_tree import ROOT, SRC
from ferrule.errors import ApprovalError, FencedError
from ferrule.run.ledger.ledger import CallState
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import ANN, LEASE, Database, claim

# Where it is killed, the state in which the next owner finds the call, and the output of the effect so far.
POINTS = {
    "before start commits": (None, ""),
    "started": (CallState.UNKNOWN, ""),
    "within the effect": (CallState.UNKNOWN, "pa"),
    "effect made": (CallState.UNKNOWN, "paid\n"),
    "before finish commits": (CallState.UNKNOWN, "paid\n"),
    "finished": (CallState.DONE, "paid\n"),
}


@pytest.mark.parametrize("needs_approval", [False, True], ids=["plain", "with approval"])
@pytest.mark.parametrize("point", POINTS)
def test_whenever_its_process_is_killed_a_call_happens_at_most_once(
    database: Database, tmp_path: Path, point: str, needs_approval: bool
) -> None:
    effect = tmp_path / "effect"
    effect.touch()
    state, output = POINTS[point]
    expected = state or (CallState.APPROVED if needs_approval else CallState.PROPOSED)
    approval = database.run(lambda ledger: prepare(ledger, needs_approval))

    victim = subprocess.run(
        [sys.executable, Path(__file__).with_name("ledger_victim.py"), database.argument, effect, point],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SRC, ROOT / "tests")))},
    )
    assert (victim.returncode, victim.stderr) == (-signal.SIGKILL, b"")
    assert effect.read_text() == output

    async def scenario(ledger: SqlLedger) -> None:
        with pytest.raises(FencedError):
            await ledger.take_over("c", "two", LEASE, now=9)
        taken = await ledger.take_over("c", "two", LEASE, now=LEASE)
        (call,) = await ledger.calls("c")
        assert (taken.epoch, call.state) == (2, expected)
        # Only a start that was never committed can be made up for.
        assert await outcome_of_start(ledger, approval) == (
            "won" if state is None else "used" if needs_approval else "lost"
        )
        assert await ledger.verify() is None

    database.run(scenario)


async def outcome_of_start(ledger: SqlLedger, approval: str) -> str:
    try:
        return "won" if await ledger.start(claim(), 2, approval=approval, now=LEASE) else "lost"
    except ApprovalError as refusal:
        return refusal.code.removeprefix("approval_")


async def prepare(ledger: SqlLedger, needs_approval: bool) -> str:
    await ledger.open("c", ANN, "one", LEASE, now=0)
    await ledger.propose(claim(), 1, side_effects=True, needs_approval=needs_approval, now=0)
    if not needs_approval:
        return ""
    request = await ledger.request_approval("c", "k", 1, expires=99, now=0)
    return (await ledger.approve(request.id, "bob", now=1)).id
