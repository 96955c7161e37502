"""Postgres restarted and failed over to its synchronous standby, under gateways and bus workers at work.

Clients send their requests again with the same Idempotency-Key. `scripts/long failover` does the same for longer.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.failover.run import FailoverSize, report, run_failover

pytestmark = pytest.mark.live
_RESTARTS = 3
# Behind a pooler in transaction mode the ledger needs a driver that keeps nothing in a session: `--front pgbouncer`.
_FRONT = "pgbouncer"


def test_restarted_and_failed_over_no_effect_happens_twice_and_every_request_is_answered(tmp_path: Path) -> None:
    size = FailoverSize(restarts=_RESTARTS, answers=4, clients=2)
    result = asyncio.run(run_failover(_FRONT, size, tmp_path))
    print(f"\n{report(_FRONT, result)}")
    failover = result.failover
    assert failover.findings.breaches == []
    assert failover.findings.broken_off == []
    assert len(failover.events) == _RESTARTS + 1
    assert failover.findings.counts["effects"] > 0
    assert failover.chats
    assert failover.readers
