"""One day from its beginning to its findings, and the report on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import ferrule.ledger
from lab.operate.allowances import missing_sentences
from lab.operate.budgets import budgets_of, seconds_until_midnight
from lab.operate.day import Day, Moment
from lab.operate.findings import Findings, findings_of
from lab.operate.load import Load
from lab.operate.stage import open_stage

_MOST_MORE_SECONDS: Final = 600.0
"""How much longer than planned a day may take: its steps wait for what must come true."""
_START_SECONDS: Final = 120.0
_LEAST_OPEN, _OPEN_SECONDS = 1000, 30
"""A run ends when the gateways are so many seconds of requests behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySize:
    seconds: float
    rate: float
    has_envoy: bool = True


@dataclass(frozen=True, slots=True)
class DayResult:
    size: DaySize
    findings: Findings
    moments: list[Moment]
    began: float
    """When the load began, by the clock of the moments."""
    generator_cpu: float
    """The part of a core that the process of the generator used."""
    busy_cores: float
    """How many cores of the machine were busy on average, with whatever else ran on it."""
    load_average: float


async def run_day(size: DaySize, folder: Path) -> DayResult:
    """Start the servers in an empty folder, and take the day."""
    if missing := missing_sentences():
        raise ValueError(f"the documentation no longer says: {'; '.join(missing)}")
    await _after_midnight(size)
    with contextlib.ExitStack() as stack:
        stage = await asyncio.to_thread(stack.enter_context, open_stage(folder, has_envoy=size.has_envoy))
        keys: dict[str, str] = {}
        most_open = max(_LEAST_OPEN, round(size.rate * _OPEN_SECONDS))
        load = Load(stage.urls, size.rate, keys, most_open)
        day = Day(stage, load, keys, {one.name: one for one in budgets_of(size.rate, size.seconds)})
        await day.prepare()
        cpu, busy = time.process_time(), _busy_seconds()
        await _run_load(day, size)
        cpu, busy = time.process_time() - cpu, _busy_seconds() - busy
        load_average = os.getloadavg()[1]
        async with ferrule.ledger.open(stage.postgres.address) as ledger:
            breach = await ledger.verify()
        day.require(breach is None, f"the audit log: {breach}")
        findings = findings_of(day)
    seconds = load.ended - load.began
    return DayResult(size, findings, day.moments, load.began, cpu / seconds, busy / seconds, load_average)


async def _run_load(day: Day, size: DaySize) -> None:
    is_over = asyncio.Event()
    load = asyncio.create_task(day.load.run(size.seconds, is_over, size.seconds + _MOST_MORE_SECONDS))
    # The schedule has begun when the first request is sent.
    await asyncio.sleep(0)
    while not day.load.began:
        await asyncio.sleep(0.01)
    steps = asyncio.create_task(day.run(size.seconds))
    try:
        await asyncio.wait((load, steps), return_when=asyncio.FIRST_COMPLETED)
        if not steps.done():
            # Either it has failed, or the steps take too long.
            await load
            raise TimeoutError("the steps of the day have not ended")
        steps.result()
        is_over.set()
        await load
    finally:
        for task in (load, steps):
            task.cancel()
        await asyncio.gather(load, steps, return_exceptions=True)


async def _after_midnight(size: DaySize) -> None:
    """The budgets are of a day: a run that midnight would interrupt begins after it."""
    left = seconds_until_midnight()
    if left < _START_SECONDS + size.seconds + _MOST_MORE_SECONDS:
        print(f"waiting {left:.0f} s: quotas begin anew at midnight of UTC", flush=True)
        await asyncio.sleep(left + 1)


def _busy_seconds(file: Path = Path("/proc/stat")) -> float:
    """The seconds in which cores of this machine have been busy since its start."""
    _, *ticks = file.read_text(encoding="utf-8").partition("\n")[0].split()
    user, nice, system, _, _, interrupts, soft_interrupts, *_ = map(int, ticks)
    return (user + nice + system + interrupts + soft_interrupts) / os.sysconf("SC_CLK_TCK")


def report(result: DayResult) -> str:
    """Return the figures of a day as text."""
    findings, schedule = result.findings, result.findings.schedule
    lines = [
        f"{schedule.sent} requests in {schedule.seconds:.0f} s: {schedule.rate:.1f} a second of "
        f"{schedule.wanted_rate:g}; begun late by {schedule.late_median * 1000:.1f} ms (median), "
        f"{schedule.late_99 * 1000:.0f} ms (p99), {schedule.late_most * 1000:.0f} ms (most); generator "
        f"{result.generator_cpu:.2f} cores, all {result.busy_cores:.2f}, load average {result.load_average:.1f}"
    ]
    lines += [
        f"  {one.name}: {one.sent} sent, {one.answered} answered, {one.retried} sent again, {one.permitted} lost as "
        f"documented, {one.lost} lost; {one.median * 1000:.0f} ms (median), {one.late * 1000:.0f} ms (p99)"
        for one in findings.kinds
    ]
    lines += [
        f"  {one.began - result.began:.0f} s: {one.name}, {one.ended - one.began:.0f} s: {one.note}; slowest chat "
        f"{findings.slowest[one.name]:.1f} s"
        for one in result.moments
    ]
    lines += [
        f"  budget {one.budget.name}: {one.accepted} accepted of {one.budget.most}, {one.asked} asked "
        f"({one.deviation:+.1%}); a process found Valkey away {one.store_failures} times"
        for one in findings.budgets
    ]
    lines += [f"  lost, because {name}: {count}" for name, count in findings.permitted.most_common()]
    lines += [f"  sent again after: {name}: {count}" for name, count in findings.refusals.most_common()]
    lines.append(
        f"  effects: {findings.effects} by {findings.paying_processes} processes, {findings.twice} twice, "
        f"{findings.unknown} answers with an unknown outcome"
    )
    lines.append(f"  breaches: {len(findings.breaches)}")
    lines += [f"    {breach}" for breach in findings.breaches[:50]]
    return "\n".join(lines)
