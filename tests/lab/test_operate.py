"""The parts of a day of operations that need no server: its allowances, its budgets and its page."""

from __future__ import annotations

from collections import Counter

from lab.operate.allowances import ALLOWANCES, allowance_of, missing_sentences
from lab.operate.budgets import EFFECTS, EVENING, MORNING, NOON, budgets_of, seconds_until_midnight
from lab.operate.client import Exchange, Failure
from lab.operate.day import POSTGRES_STOPPED, STEPS, Moment
from lab.operate.findings import BudgetCount, Findings, KindCount, Schedule, quantile
from lab.operate.gateway import WORKERS
from lab.operate.kinds import CHAT, PAY, Kind
from lab.operate.page import sections_of
from lab.operate.run import DayResult, DaySize

STOPPED = Moment(POSTGRES_STOPPED, began=100.0, ended=110.0, note="")


def lost(kind: Kind, code: str, *, began: float = 103.0, key: str = "") -> Exchange:
    failure = Failure(503, code)
    return Exchange(1, kind, key or kind.key, began, began, began + 2.0, 3, [failure, failure], None, failure)


def test_the_documentation_has_every_sentence_that_permits_a_loss() -> None:
    assert missing_sentences() == []


def test_a_loss_is_permitted_by_its_code_its_kind_and_its_moment() -> None:
    away = lost(PAY, "ledger_unavailable")
    assert (allowance := allowance_of(away, [STOPPED])) is not None
    assert allowance.name == "the ledger is away"
    # It came outside of the step, it is of a request that stores nothing, or it is another error.
    assert allowance_of(lost(PAY, "ledger_unavailable", began=120.0), [STOPPED]) is None
    assert allowance_of(lost(CHAT, "ledger_unavailable"), [STOPPED]) is None
    assert allowance_of(lost(PAY, "internal_error"), [STOPPED]) is None


def test_a_budget_may_be_refused_and_other_keys_may_not() -> None:
    assert allowance_of(lost(CHAT, "quota_exceeded", key=MORNING), []) is not None
    assert allowance_of(lost(CHAT, "quota_exceeded"), []) is None
    assert len({one.name for one in ALLOWANCES}) == len(ALLOWANCES)


def test_every_budget_is_asked_for_more_than_it_has_within_its_part_of_the_day() -> None:
    for rate, seconds in ((10.0, 30.0), (200.0, 600.0)):
        budgets = {one.name: one for one in budgets_of(rate, seconds)}
        assert budgets.keys() == {MORNING, EFFECTS, NOON, EVENING}
        for budget in budgets.values():
            assert budget.asks > budget.most
            assert 0 < budget.share <= 0.3
            # While the store is away, the parts of all processes add up to it.
            assert budget.most % (2 * WORKERS) == 0
    assert budgets[MORNING].most == 960


def test_a_limit_holds_within_two_percent_and_while_the_store_is_away_if_it_is_not_exceeded() -> None:
    morning, _, noon, _ = budgets_of(200, 600)
    assert BudgetCount(morning, 1440, 960).holds
    assert BudgetCount(morning, 1440, 979).holds
    assert not BudgetCount(morning, 1440, 980).holds
    assert not BudgetCount(morning, 1440, 940).holds
    assert BudgetCount(noon, 600, noon.most // 2).holds
    assert not BudgetCount(noon, 600, noon.most * 2).holds


def test_the_page_says_whether_the_rate_was_held_what_was_lost_and_what_permits_it() -> None:
    schedule = Schedule(200.0, 180.0, 108_000, 600.0, 0.001, 0.02, 0.3)
    kinds = [KindCount("chat", 100, 97, 3, 1, 2, 0.01, 0.5)]
    counts = [BudgetCount(one, one.asks, one.most) for one in budgets_of(200, 600)]
    permitted, refusals = Counter({"the ledger is away": 1}), Counter({"503 draining (drain a gateway)": 3})
    findings = Findings(schedule, kinds, counts, permitted, refusals, 40, 0, 4, 1, {STOPPED.name: 1.25}, ["lost: 17"])
    size = DaySize(seconds=600, rate=200)
    page = "\n\n".join(sections_of(DayResult(size, findings, [STOPPED], 90.0, 0.4, 1.9, 1.5)))
    assert "scripts/long operate --seconds 600 --rate 200" in page
    assert "**The rate was not held**: 108,000 requests in 600 s are 180.0 a second of 200." in page
    assert "| chat | 100 | 97 | 3 | 1 | 2 | 0.010 | 0.50 |" in page
    assert "| morning | 960 | 1,440 | 960 | +0.0% | 0 |" in page
    assert "| 10 | stop and start Postgres | 10 | 1.25 |" in page
    assert "requests that store nothing are still answered" in page
    assert "(../how-to/deploy.md)" in page
    assert "**1 breaches:**" in page


def test_the_steps_are_in_order_and_a_day_ends_at_midnight() -> None:
    assert [one.at for one in STEPS] == sorted(one.at for one in STEPS)
    assert seconds_until_midnight(86_399.0) == 1.0


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [quantile(values, part) for part in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert quantile([], 0.5) == 0.0
