"""The state machine of the loop: in any order of events, every call ends once and the loop ends."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Reply, ToolCall
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.run.machine import (
    AppendResults,
    AskModel,
    EndLoop,
    Machine,
    RequestApproval,
    RunCall,
    State,
    Step,
    TransitionError,
    Trigger,
)
from ferrule.run.policy import BudgetUsage, Policy


def call(number: int, name: str = "add", size: int | None = None) -> ToolCall:
    return ToolCall.of(name, {"n": number if size is None else size}, id=f"c{number}")


def calling(*calls: ToolCall) -> Reply:
    return Reply.of(*calls)


def runs(steps: list[Step]) -> list[str]:
    return [step.call.id for step in steps if isinstance(step, RunCall)]


def test_an_answer_ends_the_loop() -> None:
    machine = Machine()
    assert machine.start() == [AskModel()]
    assert machine.accept_reply(Reply.of("hello")) == [EndLoop(State.DONE)]
    assert machine.state is State.DONE


def test_calls_run_side_by_side_within_the_width_and_their_results_go_back_together_in_order() -> None:
    machine = Machine(Policy(max_concurrent=2))
    machine.start()
    steps = machine.accept_reply(calling(call(1), call(2), call(3)))
    assert runs(steps) == ["c1", "c2"]
    assert runs(machine.accept_outcome("c2", Answered("two"))) == ["c3"]
    assert machine.accept_outcome("c3", Answered("three")) == []
    give, ask = machine.accept_outcome("c1", Answered("one"))
    assert isinstance(give, AppendResults)
    assert [outcome for _, outcome, _ in give.results] == [Answered("one"), Answered("two"), Answered("three")]
    assert ask == AskModel()


def test_a_result_that_comes_twice_or_for_no_call_changes_nothing() -> None:
    machine = Machine()
    machine.start()
    machine.accept_reply(calling(call(1), call(2)))
    machine.accept_outcome("c1", Answered("one"))
    assert machine.accept_outcome("c1", Answered("again")) == []
    assert machine.accept_outcome("nobody", Answered("x")) == []


def test_approval_is_requested_once_while_the_other_calls_run() -> None:
    machine = Machine()
    machine.start()
    steps = machine.accept_reply(calling(call(1), call(2, "send")), frozenset({"c2"}))
    assert [type(step) for step in steps] == [RequestApproval, RunCall]
    assert machine.accept_outcome("c1", Answered("one")) == []
    assert machine.state is State.WAITING
    assert runs(machine.approve("c2")) == ["c2"]
    assert machine.approve("c2") == []
    assert machine.deny("c2") == []


def test_what_was_approved_with_other_arguments_runs_with_those() -> None:
    machine = Machine()
    machine.start()
    machine.accept_reply(calling(call(1, "send")), frozenset({"c1"}))
    (step,) = machine.approve("c1", '{"n": 7}')
    assert isinstance(step, RunCall)
    assert step.call.arguments == {"n": 7}


def test_the_model_reads_a_denial() -> None:
    machine = Machine()
    machine.start()
    machine.accept_reply(calling(call(1, "send")), frozenset({"c1"}))
    give, ask = machine.deny("c1", "not today")
    assert isinstance(give, AppendResults)
    assert give.results[0][1] == Answered("denied: not today", is_error=True, code="denied")
    assert ask == AskModel()


def test_at_the_limit_of_rounds_the_model_is_asked_for_its_answer_without_tools() -> None:
    machine = Machine(Policy(rounds=2))
    machine.start()
    for number in (1, 2):
        machine.accept_reply(calling(call(number)))
        steps = machine.accept_outcome(f"c{number}", Answered(number))
    assert isinstance(steps[-1], AskModel)
    assert steps[-1].is_last
    assert "2 rounds" in steps[-1].notice
    assert machine.accept_reply(calling(call(3))) == [EndLoop(State.DONE)]


@pytest.mark.parametrize(
    "policy, seconds, content", [(Policy(seconds=5), 6.0, "x"), (Policy(result_bytes=10), 0.0, "x" * 11)]
)
def test_time_and_bytes_end_it_too(policy: Policy, seconds: float, content: str) -> None:
    machine = Machine(policy)
    machine.start()
    machine.accept_reply(calling(call(1)))
    machine.set_elapsed(seconds)
    steps = machine.accept_outcome("c1", Answered(content))
    assert isinstance(steps[-1], AskModel)
    assert steps[-1].is_last


def test_the_same_call_with_the_same_result_is_hinted_at_and_then_stopped() -> None:
    machine = Machine(Policy(rounds=9))
    machine.start()
    hints: list[str] = []
    for number in (1, 2, 3):
        machine.accept_reply(calling(call(number, size=5)))
        give, ask = machine.accept_outcome(f"c{number}", Answered("same"))
        assert isinstance(give, AppendResults)
        assert isinstance(ask, AskModel)
        hints.append(give.results[0][2])
    assert [bool(hint) for hint in hints] == [False, True, False]
    assert ask.is_last


def test_a_tool_over_its_limit_is_refused_and_the_others_run() -> None:
    machine = Machine(Policy(calls_per_tool=1))
    machine.start()
    steps = machine.accept_reply(calling(call(1), call(2), call(3, "other")))
    assert runs(steps) == ["c1", "c3"]


def test_an_impossible_trigger_is_an_error_of_the_driver() -> None:
    with pytest.raises(TransitionError):
        Machine().accept_reply(Reply.of("too early"))
    machine = Machine()
    machine.start()
    with pytest.raises(TransitionError):
        machine.start()


def test_cancelling_ends_it_from_anywhere_and_once() -> None:
    machine = Machine()
    machine.start()
    assert machine.cancel() == [EndLoop(State.STOPPED)]
    assert machine.cancel() == []


OUTCOMES = st.sampled_from([Answered("a"), Answered({"b": 1}), NotDelivered("gone"), Unknown("late")])


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 5))
def test_whatever_happens_in_whatever_order_each_call_runs_at_most_once_and_the_loop_ends(
    seed: int, width: int, rounds: int
) -> None:
    luck = random.Random(seed)
    policy = Policy(max_concurrent=width, rounds=rounds)
    machine = Machine(policy)
    handed_out: list[str] = []
    given_back: list[str] = []
    steps, number = machine.start(), 0
    for _ in range(500):
        if machine.state in (State.DONE, State.STOPPED):
            break
        # Resumed by another process between any two steps.
        machine = Machine.from_dict(json.loads(json.dumps(machine.as_dict())), policy)
        for step in steps:
            if isinstance(step, RunCall):
                handed_out.append(step.call.id)
            elif isinstance(step, AppendResults):
                given_back += [call.id for call, _, _ in step.results]
        assert len(machine.running) <= width
        steps, number = _something(machine, luck, number)
    assert machine.state is State.DONE
    assert len(handed_out) == len(set(handed_out))
    assert len(given_back) == len(set(given_back))
    assert machine.usage.rounds <= rounds


def _something(machine: Machine, luck: random.Random, number: int) -> tuple[list[Step], int]:
    if machine.state in (State.ASKING, State.CLOSING):
        count = luck.choice([0, 1, 2, 5])
        calls = [call(number + n, luck.choice(["add", "send"])) for n in range(count)]
        needs = frozenset(one.id for one in calls if one.name == "send" and luck.random() < 0.5)
        return machine.accept_reply(calling(*calls) if calls else Reply.of("done"), needs), number + count
    outcomes: list[Outcome] = [Answered("a"), Answered({"b": luck.random()}), NotDelivered("gone"), Unknown("late")]
    anyone = luck.choice([one.id for one in (*machine.running, *machine.awaiting_approval)])
    trigger = luck.choice([Trigger.CALL_FINISHED, Trigger.APPROVED, Trigger.DENIED])
    if trigger is Trigger.CALL_FINISHED:
        return machine.accept_outcome(anyone, luck.choice(outcomes)), number
    return (machine.approve(anyone) if trigger is Trigger.APPROVED else machine.deny(anyone)), number


def test_budget_usage_comes_back_from_json() -> None:
    usage = BudgetUsage(rounds=2, seconds=1.5)
    usage.count_call(call(1))
    usage.count_result(call(1), Answered("x"))
    assert BudgetUsage.from_dict(json.loads(json.dumps(usage.as_dict()))) == usage


def test_a_call_that_the_caller_runs_ends_the_loop_after_the_other_calls_of_its_round() -> None:
    machine = Machine()
    machine.start()
    steps = machine.accept_reply(calling(call(1), call(2, "theirs")), handed_out=frozenset({"c2"}))
    assert runs(steps) == ["c1"]
    give, end = machine.accept_outcome("c1", Answered("one"))
    assert isinstance(give, AppendResults)
    assert [one.id for one, _, _ in give.results] == ["c1"]
    assert (end, machine.state, machine.handed_out) == (EndLoop(State.DONE), State.DONE, ("c2",))


def test_a_round_of_the_callers_calls_ends_at_once_and_counts_against_no_limit() -> None:
    machine = Machine(Policy(calls=0))
    machine.start()
    steps = machine.accept_reply(calling(call(1, "theirs"), call(2, "theirs")), handed_out=frozenset({"c1", "c2"}))
    assert (steps, machine.handed_out) == ([EndLoop(State.DONE)], ("c1", "c2"))


@given(st.lists(st.sampled_from(["own", "asked", "theirs"]), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_saved_at_any_moment_a_round_with_the_callers_calls_ends_in_the_same_way(
    kinds: list[str], order: random.Random
) -> None:
    calls = [call(number, kind) for number, kind in enumerate(kinds)]
    ids = {kind: frozenset(one.id for one in calls if one.name == kind) for kind in ("own", "asked", "theirs")}
    machine = Machine(Policy(max_concurrent=2))
    machine.start()
    steps = machine.accept_reply(calling(*calls), ids["asked"], handed_out=ids["theirs"])
    begun = set(runs(steps))
    while machine.state in (State.RUNNING, State.WAITING):
        machine = Machine.from_dict(json.loads(json.dumps(machine.as_dict())), machine.policy)
        assert not ids["theirs"] & {one.id for one in (*machine.running, *machine.awaiting_approval)}
        running, waiting = [one.id for one in machine.running], [one.id for one in machine.awaiting_approval]
        id = order.choice(running + waiting)
        if id in running:
            steps = machine.accept_outcome(id, Answered(id))
        else:
            steps = machine.approve(id) if order.random() < 0.5 else machine.deny(id)
        assert not begun & set(runs(steps))
        begun |= set(runs(steps))
    machine = Machine.from_dict(json.loads(json.dumps(machine.as_dict())), machine.policy)
    given = [one.id for step in steps if isinstance(step, AppendResults) for one, _, _ in step.results]
    assert given == [one.id for one in calls if one.name != "theirs"]
    assert machine.handed_out == tuple(one.id for one in calls if one.name == "theirs")
    assert machine.state is (State.DONE if ids["theirs"] else State.ASKING)
