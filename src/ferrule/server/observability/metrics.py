"""Counts: what a gateway has done, in plain numbers. Knows no format of a page and does no IO.

A count is an integer in a dictionary; what a scrape shows is made when it is asked for. Labels come from the
configuration and from our own tables, never from a request, and a family that has too many of them lumps the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

OTHER = "other"
MOST_SERIES = 500

_TOOL = ("model", "tool", "definition")
_SHORT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `bounds` make it a histogram of seconds, `is_gauge` something that goes up and down."""

    about: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    is_gauge: bool = False


FAMILIES: Mapping[str, Family] = {
    "ferrule_requests": Family("Requests that were answered or refused.", ("api", "model", "outcome")),
    "ferrule_first_event_seconds": Family("Until an answer's first event.", ("model",), _SHORT),
    "ferrule_answer_seconds": Family("For the whole of an answer.", ("model",), _LONG),
    "ferrule_events": Family("Events of answers.", ("model",)),
    "ferrule_tokens": Family("Tokens read and written.", ("model", "kind")),
    "ferrule_calls": Family("Calls that models made, by how they were guaranteed.", ("tool", "how", "outcome")),
    "ferrule_repairs": Family("Calls whose arguments were written a second time.", ("model",)),
    "ferrule_tool_offered": Family("Replies of a model that was offered the tool.", _TOOL),
    "ferrule_tool_picked": Family("Calls that name the tool and were handed on.", _TOOL),
    "ferrule_tool_wrong": Family("Calls that name the tool and were repaired or refused.", _TOOL),
    "ferrule_tool_missed": Family("Calls of a name near it that was not offered; demands without a call.", _TOOL),
    "ferrule_tool_retried": Family("Calls after an error of the same tool.", _TOOL),
    "ferrule_tool_repeated": Family("Calls with the arguments of an earlier one.", _TOOL),
    "ferrule_tool_seconds": Family("What the gateway's own tools took.", ("tool", "outcome"), _LONG),
    "ferrule_approvals_asked": Family("Calls that leave was asked for.", ("tool",)),
    "ferrule_failovers": Family("Answers that another engine took over before anything was said.", ("model",)),
    "ferrule_engine_errors": Family("Failures of engines.", ("engine", "code")),
    "ferrule_ledger_errors": Family("What the ledger refused, or could not do.", ("code",)),
    "ferrule_unexpected_errors": Family("Errors that nobody foresaw; the log has their stacks."),
    "ferrule_approvals_waiting": Family("Approvals that nobody has decided.", is_gauge=True),
    "ferrule_engine_well": Family("Workers that would ask this engine now.", ("engine",), is_gauge=True),
    "ferrule_engine_answers_open": Family("Answers that an engine is writing.", ("engine",), is_gauge=True),
    "ferrule_answers_open": Family("Answers under way.", is_gauge=True),
    "ferrule_requests_open": Family("Requests and connections that are being served.", is_gauge=True),
    "ferrule_draining": Family("Workers that are ending what is under way, and take nothing new.", is_gauge=True),
    "ferrule_workers": Family("Processes that serve.", is_gauge=True),
}

Labels = tuple[str, ...]


@dataclass(slots=True)
class Spread:
    """A histogram: how many were at most each bound, not summed up, and the sum of them all."""

    counts: list[int]
    sum: float = 0.0


@dataclass(slots=True)
class Counts:
    """Numbers by family and labels."""

    sums: dict[str, dict[Labels, float]] = field(default_factory=dict[str, dict[Labels, float]])
    spreads: dict[str, dict[Labels, Spread]] = field(default_factory=dict[str, dict[Labels, Spread]])

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        held = self.sums.setdefault(name, {})
        key = _room(held, labels)
        held[key] = held.get(key, 0) + by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        held = self.spreads.setdefault(name, {})
        key = _room(held, labels)
        bounds = FAMILIES[name].bounds
        if key not in held:
            held[key] = Spread([0] * (len(bounds) + 1))
        held[key].counts[bisect_left(bounds, seconds)] += 1
        held[key].sum += seconds

    def merge(self, other: Counts) -> None:
        """With the other's numbers added: gauges too, which is what a sum over processes means for them."""
        for name, sums in other.sums.items():
            for labels, value in sums.items():
                self.add(name, *labels, by=value)
        for name, spreads in other.spreads.items():
            held = self.spreads.setdefault(name, {})
            for labels, spread in spreads.items():
                key = _room(held, labels)
                mine = held.get(key) or Spread([0] * len(spread.counts))
                counts = [one + two for one, two in zip(mine.counts, spread.counts, strict=True)]
                held[key] = Spread(counts, mine.sum + spread.sum)

    def without_gauges(self) -> Counts:
        """What another process can go on counting from."""
        return Counts({name: held for name, held in self.sums.items() if not FAMILIES[name].is_gauge}, self.spreads)

    def as_json(self) -> dict[str, Any]:
        sums = {name: [[*labels, value] for labels, value in held.items()] for name, held in self.sums.items()}
        spreads = {
            name: [[*labels, [*spread.counts, spread.sum]] for labels, spread in held.items()]
            for name, held in self.spreads.items()
        }
        return {"sums": sums, "spreads": spreads}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Counts:
        """As far as this version knows the families: what another one wrote beside them is left out."""
        made = Counts()
        for name, rows in cast("Mapping[str, list[list[Any]]]", told["sums"]).items():
            if name in FAMILIES:
                made.sums[name] = {tuple(row[:-1]): row[-1] for row in rows}
        for name, rows in cast("Mapping[str, list[list[Any]]]", told["spreads"]).items():
            if name in FAMILIES:
                made.spreads[name] = {tuple(row[:-1]): Spread(row[-1][:-1], row[-1][-1]) for row in rows}
        return made


def _room(held: Mapping[Labels, object], labels: Labels) -> Labels:
    """The labels, or those of the lump where there are too many already."""
    if labels in held or len(held) < MOST_SERIES:
        return labels
    return (OTHER,) * len(labels)
