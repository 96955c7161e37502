"""Workers, an approver and gateways on one ledger, killed and stopped at random: its guarantees hold from outside.

`scripts/long ledger-storm` does the same with a thousand kills.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.ledger_storm.run import DATABASES, StormSize, report, run_storm

pytestmark = pytest.mark.live
_KILLS, _FREEZES = 20, 3


@pytest.mark.parametrize("database", DATABASES)
def test_killed_and_stopped_at_random_no_effect_happens_twice_and_every_turn_ends(
    database: str, tmp_path: Path
) -> None:
    size = StormSize(kills=_KILLS, freezes=_FREEZES, seed=7)
    result = asyncio.run(run_storm(database, size, tmp_path))
    print(f"\n{report(database, result)}")
    assert result.findings.breaches == []
    assert result.findings.broken_off == []
    assert sum(result.storm.kills.values()) == _KILLS
    assert len(result.storm.freezes) == _FREEZES
    for subject in ("effects", "turns", "responses", "events"):
        assert result.findings.counts[subject] > 0
