"""A day of operations on two gateways under load: no effect twice, no loss that the documentation does not say.

Without Envoy, which CI does not install: each attempt of a client goes to the other gateway. `scripts/long operate` is
the same day with Envoy, at 200 requests a second.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.operate.budgets import EFFECTS, EVENING, MORNING, NOON
from lab.operate.day import STEPS
from lab.operate.run import DaySize, report, run_day

pytestmark = pytest.mark.live
_SECONDS, _RATE = 30, 10


def test_a_day_of_operations_loses_nothing_that_is_not_documented_and_keeps_every_limit(tmp_path: Path) -> None:
    result = asyncio.run(run_day(DaySize(seconds=_SECONDS, rate=_RATE, has_envoy=False), tmp_path))
    print(f"\n{report(result)}")
    findings = result.findings
    # Among them are undocumented losses, effects that happened twice or were never asked for, and limits beyond 2%.
    assert findings.breaches == []
    assert findings.twice == 0
    assert findings.effects > 0
    assert [one.name for one in result.moments] == [step.name for step in STEPS]
    budgets = {one.budget.name: one for one in findings.budgets}
    assert budgets.keys() == {MORNING, EFFECTS, NOON, EVENING}
    assert all(one.asked > one.budget.most for one in budgets.values())
    assert budgets[NOON].store_failures > 0
