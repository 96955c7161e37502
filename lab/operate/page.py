"""The section of results.md about a day of operations."""

from __future__ import annotations

import os
from typing import Final

from ferrule.bench.tables import Table, markdown
from lab.environment import describe_environment, measured_environment
from lab.operate.allowances import ALLOWANCES
from lab.operate.findings import Findings
from lab.operate.run import DayResult
from lab.results_page import publish

_KEPT_RATE: Final = 0.99
_ABOUT: Final = (
    "Two gateways with two workers each, behind Envoy, on PostgreSQL and Valkey; the engine is scripted and answers at "
    "once, or a word every 100 ms where it streams. Requests begin at the moments of a schedule, however late other "
    "answers are, and a client sends each of them again as OpenAI's SDK does: twice, with its pauses and headers. "
    "Meanwhile an operator takes the steps below. *As documented*: a request without a whole answer, for which a "
    "sentence of the documentation says so. *Lost*: every other. Seconds are from the moment in the schedule to the "
    "whole answer, with the pauses between attempts."
)
_BUDGETS: Final = (
    "Each budget is asked for one and a half times. *Morning*, *evening* and *effects* are counted in Valkey over all "
    "four processes; *noon* is used while Valkey is away, when each process has a quarter and may refuse what another "
    "has left. *Store away*: how often a process got no answer from Valkey meanwhile, and counted by itself."
)


def sections_of(result: DayResult) -> list[str]:
    """The parts of the section, below its heading."""
    findings = result.findings
    return [
        _command(result),
        f"{describe_environment(measured_environment())} Load average {result.load_average:.1f} on "
        f"{os.cpu_count()} cores, which the load generator and all servers share.",
        _ABOUT,
        _rate_text(result),
        markdown(_requests(findings)),
        _effects_text(findings),
        markdown(_steps(result)),
        _BUDGETS,
        markdown(_budgets(findings)),
        *_permitted(findings),
        *_breaches(findings),
    ]


def publish_day(result: DayResult) -> None:
    publish("operate", "A day of operations", sections_of(result))


def _command(result: DayResult) -> str:
    size = result.size
    return f"```sh\nscripts/setup-envoy\nscripts/long operate --seconds {size.seconds:g} --rate {size.rate:g}\n```"


def _rate_text(result: DayResult) -> str:
    schedule = result.findings.schedule
    kept = schedule.rate >= _KEPT_RATE * schedule.wanted_rate
    verdict = "The rate was held" if kept else "**The rate was not held**"
    return (
        f"{verdict}: {schedule.sent:,} requests in {schedule.seconds:.0f} s are {schedule.rate:.1f} a second of "
        f"{schedule.wanted_rate:g}. The generator began them {schedule.late_median * 1000:.1f} ms after their moment "
        f"(median), {schedule.late_99 * 1000:.0f} ms (p99) and at most {schedule.late_most * 1000:.0f} ms, and used "
        f"{result.generator_cpu:.2f} of a core. On average {result.busy_cores:.2f} of {os.cpu_count()} cores were busy."
    )


def _requests(findings: Findings) -> Table:
    rows = [
        (
            *(one.name, f"{one.sent:,}", f"{one.answered:,}", f"{one.retried:,}"),
            *(f"{one.permitted:,}", f"{one.lost:,}", f"{one.median:.3f}", f"{one.late:.2f}"),
        )
        for one in findings.kinds
    ]
    columns = ("requests", "sent", "answered", "sent again", "as documented", "lost", "median, s", "p99, s")
    return Table("Requests", "", columns, rows)


def _effects_text(findings: Findings) -> str:
    return (
        f"{findings.effects:,} effects, in {findings.paying_processes} processes; {findings.twice} happened twice. "
        f"{findings.unknown} answers say that the outcome of a call is unknown."
    )


def _steps(result: DayResult) -> Table:
    rows = [
        (
            *(f"{one.began - result.began:.0f}", one.name, f"{one.ended - one.began:.0f}"),
            *(f"{result.findings.slowest[one.name]:.2f}", one.note),
        )
        for one in result.moments
    ]
    return Table("Steps", "", ("at, s", "step", "took, s", "slowest chat, s", "what happened"), rows)


def _budgets(findings: Findings) -> Table:
    rows = [
        (
            *(one.budget.name, f"{one.budget.most:,}", f"{one.asked:,}", f"{one.accepted:,}"),
            *(f"{one.deviation:+.1%}", f"{one.store_failures}"),
        )
        for one in findings.budgets
    ]
    return Table("Budgets", "", ("budget", "most", "asked for", "accepted", "difference", "store away"), rows)


def _permitted(findings: Findings) -> list[str]:
    rows = [
        (
            f"{findings.permitted[one.name]:,}",
            one.name,
            f"[{one.page}](../{one.page})",
            one.sentence.replace("|", "\\|"),
        )
        for one in ALLOWANCES
        if findings.permitted[one.name]
    ]
    again = [(f"{count:,}", name) for name, count in findings.refusals.most_common()]
    parts = (
        [markdown(Table("As documented", "", ("requests", "because", "page", "what it says"), rows))] if rows else []
    )
    return parts + ([markdown(Table("Sent again", "", ("attempts", "sent again after"), again))] if again else [])


def _breaches(findings: Findings) -> list[str]:
    if not findings.breaches:
        return ["No breach."]
    shown = "\n".join(f"- {breach}" for breach in findings.breaches[:20])
    return [f"**{len(findings.breaches)} breaches:**", shown]
