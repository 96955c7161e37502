"""One storm from its beginning to its checks, and the report on it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from lab.ledger_storm.checks import Findings, check_storm
from lab.ledger_storm.databases import postgres_storm, sqlite_storm
from lab.ledger_storm.storm import Storm, StormSize

__all__ = ["DATABASES", "StormResult", "StormSize", "report", "run_storm"]

DATABASES = {"postgres": postgres_storm, "sqlite": sqlite_storm}


@dataclass(frozen=True, slots=True)
class StormResult:
    storm: Storm
    findings: Findings
    seconds: float


async def run_storm(database: str, size: StormSize, folder: Path) -> StormResult:
    began = time.monotonic()
    async with DATABASES[database](size, folder) as storm, storm.run() as session:
        findings = await check_storm(storm, session)
    return StormResult(storm, findings, time.monotonic() - began)


def report(database: str, result: StormResult) -> str:
    """Return the counts of a storm as text."""
    storm, findings = result.storm, result.findings
    kills = ", ".join(f"{count} of a {kind}" for kind, count in sorted(storm.kills.items()))
    lines = [f"{database}: {sum(storm.kills.values())} kills ({kills}), seed {storm.size.seed}, {result.seconds:.0f} s"]
    for kind in sorted({one.kind for one in storm.freezes}):
        freezes = [one for one in storm.freezes if one.kind == kind]
        seconds = sorted(one.seconds for one in freezes)
        blocked = sum(bool(one.blocked_by) for one in freezes)
        lines.append(
            f"  {len(freezes)} freezes of a {kind} with {sum(one.held for one in freezes)} conversations or responses, "
            f"{median(seconds):.1f} s (median) to {seconds[-1]:.1f} s; {blocked} in which the others could not go on"
        )
    lines += [f"  {name}: {count}" for name, count in sorted(findings.counts.items())]
    lines += [f"  failed by an owner that was late: {one}" for one in findings.broken_off]
    lines.append(f"  breaches: {len(findings.breaches)}")
    lines += [f"    {breach}" for breach in findings.breaches[:50]]
    return "\n".join(lines)
