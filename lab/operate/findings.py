"""What is counted after the day: losses, limits, effects and lateness, and what of it is a breach."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.operate.allowances import INTERRUPTING, allowance_of, overlaps
from lab.operate.budgets import EFFECTS, TOLERANCE, Budget
from lab.operate.client import Exchange, Failure
from lab.operate.day import Day, Moment
from lab.operate.kinds import CHAT, LEAVING_KEY, is_refused_call, is_unknown
from lab.operate.load import Load
from lab.operate.tool_file import FIRST_LIST, price_answer, read_effects


@dataclass(frozen=True, slots=True)
class KindCount:
    """What became of the requests of one kind. `lost` are those that no sentence of the documentation permits."""

    name: str
    sent: int
    answered: int
    retried: int
    permitted: int
    lost: int
    median: float
    """Seconds until the whole answer, retries included; of those that were answered."""
    late: float
    """The same, of the 99th percentile."""


@dataclass(frozen=True, slots=True)
class BudgetCount:
    """`store_failures`: how often a process found Valkey away, and counted by itself for a second or more."""

    budget: Budget
    asked: int
    accepted: int
    store_failures: int = 0

    @property
    def deviation(self) -> float:
        return self.accepted / self.budget.most - 1

    @property
    def holds(self) -> bool:
        """Exact within the tolerance.

        While the store is away, each process has a part, so that there is at most as much again: "In the worst case
        callers use a quota once more in that period".
        """
        if not self.budget.is_exact:
            return self.deviation <= TOLERANCE
        return self.deviation <= 1 + TOLERANCE if self.store_failures else abs(self.deviation) <= TOLERANCE


@dataclass(frozen=True, slots=True)
class Schedule:
    """How well the generator kept its schedule. `late` is how long after its moment a request was begun, in seconds."""

    wanted_rate: float
    rate: float
    sent: int
    seconds: float
    late_median: float
    late_99: float
    late_most: float


@dataclass(slots=True)
class Findings:
    schedule: Schedule
    kinds: list[KindCount]
    budgets: list[BudgetCount]
    permitted: Counter[str]
    """Lost requests, by what permits it."""
    refusals: Counter[str]
    """What clients saw before they sent a request again."""
    effects: int
    twice: int
    paying_processes: int
    unknown: int
    """Whole answers in which the model was told that the outcome of an effect is unknown."""
    slowest: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds of the slowest whole answer to a chat request without a stream, by the step during which it was sent."""
    breaches: list[str] = field(default_factory=list[str])


def findings_of(day: Day) -> Findings:
    exchanges, breaches = day.load.exchanges, [*day.breaches]
    lost: dict[str, list[Exchange]] = {}
    permitted: Counter[str] = Counter()
    permitted_kinds: Counter[str] = Counter()
    for exchange in (one for one in exchanges if not one.is_whole):
        allowance = allowance_of(exchange, day.moments)
        if allowance is not None:
            permitted[allowance.name] += 1
            permitted_kinds[_name(exchange)] += 1
            continue
        lost.setdefault(_name(exchange), []).append(exchange)
        breaches.append(f"lost: {_describe(exchange, day)}")
    paid, processes = read_effects(day.stage.effects)
    breaches += _breaches_of_effects(exchanges, paid)
    breaches += _breaches_of_calls(day)
    breaches += _breaches_of_changes(day)
    budgets = [
        _count(budget, exchanges, paid, day.store_failures.get(budget.name, 0)) for budget in day.budgets.values()
    ]
    breaches += [
        f"the budget {one.budget.name}: {one.accepted} accepted of {one.budget.most}"
        for one in budgets
        if not one.holds
    ]
    return Findings(
        _schedule(day.load),
        [
            _count_kind(name, of_kind, permitted_kinds[name], len(lost.get(name, ())))
            for name, of_kind in _by_name(exchanges).items()
        ],
        budgets,
        permitted,
        Counter(_refusal(failure, one, day) for one in exchanges for failure in one.refusals),
        paid.total(),
        sum(times > 1 for times in paid.values()),
        len(processes),
        sum(one.kind.has_effect and one.answer is not None and is_unknown(one.answer) for one in exchanges),
        {one.name: _slowest(exchanges, one) for one in day.moments},
        breaches,
    )


def _breaches_of_effects(exchanges: Sequence[Exchange], paid: Mapping[int, int]) -> list[str]:
    twice = [f"{number} was paid {times} times" for number, times in paid.items() if times > 1]
    unpaid = [
        f"{one.number} was answered {one.answer!r} and never paid"
        for one in exchanges
        if one.kind.has_effect and one.answer in one.kind.answers(one.number) and one.number not in paid
    ]
    others = paid.keys() - {one.number for one in exchanges if one.kind.has_effect}
    return [*twice, *unpaid, *(f"{number} was paid and never asked for" for number in others)]


def _breaches_of_calls(day: Day) -> list[str]:
    """Calls that a quota refused although it is another key's, or whose outcome was lost with nothing to lose it."""
    steps = [one for one in day.moments if one.name in INTERRUPTING]
    breaches: list[str] = []
    for one in day.load.exchanges:
        if not one.kind.has_effect or one.answer is None:
            continue
        if is_refused_call(one.answer) and one.key != EFFECTS:
            breaches.append(f"{one.number} was refused by the budget of another key")
        if is_unknown(one.answer) and not any(overlaps(one, step) for step in steps):
            breaches.append(f"{one.number} has an unknown outcome: {_describe(one, day)}")
    return breaches


def _breaches_of_changes(day: Day) -> list[str]:
    breaches: list[str] = []
    for one in day.load.exchanges:
        if one.key == LEAVING_KEY and one.answer is not None and 0 < day.refused_from < one.began:
            breaches.append(f"{one.number} was answered with the revoked key")
        if 0 < day.second_list_from < one.began and one.answer == price_answer(one.number, FIRST_LIST):
            breaches.append(f"{one.number} was answered by the tool as it was before it changed")
    return breaches


def _count(budget: Budget, exchanges: Sequence[Exchange], paid: Mapping[int, int], failures: int) -> BudgetCount:
    asked = [one for one in exchanges if one.key == budget.name]
    if budget.kind.has_effect:
        return BudgetCount(budget, len(asked), sum(paid.get(one.number, 0) for one in asked), failures)
    return BudgetCount(budget, len(asked), sum(one.is_whole for one in asked), failures)


def _count_kind(name: str, exchanges: Sequence[Exchange], permitted: int, lost: int) -> KindCount:
    seconds = sorted(one.ended - one.planned for one in exchanges if one.is_whole)
    retried = sum(one.attempts > 1 for one in exchanges)
    counts = (len(exchanges), len(seconds), retried, permitted, lost)
    return KindCount(name, *counts, quantile(seconds, 0.5), quantile(seconds, 0.99))


def _slowest(exchanges: Sequence[Exchange], moment: Moment) -> float:
    seconds = (
        one.ended - one.planned
        for one in exchanges
        if one.kind is CHAT and one.is_whole and moment.began <= one.began <= moment.ended
    )
    return max(seconds, default=0.0)


def _schedule(load: Load) -> Schedule:
    late = sorted(one.began - one.planned for one in load.exchanges)
    seconds = load.ended - load.began
    sent = len(load.exchanges)
    return Schedule(
        load.rate, sent / seconds, sent, seconds, quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1.0)
    )


def quantile(values: Sequence[float], part: float) -> float:
    """The value at that part of sorted values; 0 if there are none."""
    return values[max(0, math.ceil(part * len(values)) - 1)] if values else 0.0


def _name(exchange: Exchange) -> str:
    return exchange.kind.name if exchange.key == exchange.kind.key else f"budget {exchange.key}"


def _by_name(exchanges: Sequence[Exchange]) -> dict[str, list[Exchange]]:
    groups: dict[str, list[Exchange]] = {}
    for exchange in exchanges:
        groups.setdefault(_name(exchange), []).append(exchange)
    return groups


def _refusal(failure: Failure, exchange: Exchange, day: Day) -> str:
    during = _steps_during(exchange, day)
    return f"{failure} ({', '.join(during) or 'between steps'})"


def _steps_during(exchange: Exchange, day: Day) -> list[str]:
    return [one.name for one in day.moments if overlaps(exchange, one)]


def _describe(exchange: Exchange, day: Day) -> str:
    at = exchange.began - day.load.began
    during = _steps_during(exchange, day)
    what = f"answered {exchange.answer!r:.200}" if exchange.failure is None else f"{exchange.failure}"
    text = exchange.failure.text if exchange.failure is not None else ""
    return (
        f"{exchange.number} ({_name(exchange)}) at {at:.1f} s, {exchange.ended - exchange.began:.1f} s, "
        f"{exchange.attempts} attempts ({', '.join(map(str, exchange.refusals))}), during {during}: {what} {text}"
    )
