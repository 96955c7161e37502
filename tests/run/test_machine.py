"""The loop's decisions: whatever happens in whatever order, every call ends once and the loop comes to an end."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Reply, ToolCall
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.run.machine import (
    Ask,
    End,
    Give,
    Happening,
    Machine,
    MachineFault,
    Run,
    Seek,
    State,
    Step,
)
from ferrule.run.policy import Policy, Spent


def call(number: int, name: str = "add", size: int | None = None) -> ToolCall:
    return ToolCall.of(name, {"n": number if size is None else size}, id=f"c{number}")


def calling(*calls: ToolCall) -> Reply:
    return Reply.of(*calls)


def runs(steps: list[Step]) -> list[str]:
    return [step.call.id for step in steps if isinstance(step, Run)]


def test_an_answer_ends_the_loop() -> None:
    machine = Machine()
    assert machine.begin() == [Ask()]
    assert machine.replied(Reply.of("hello")) == [End(State.DONE)]
    assert machine.state is State.DONE


def test_calls_run_side_by_side_within_the_width_and_their_results_go_back_together_in_order() -> None:
    machine = Machine(Policy(width=2))
    machine.begin()
    steps = machine.replied(calling(call(1), call(2), call(3)))
    assert runs(steps) == ["c1", "c2"]
    assert runs(machine.resulted("c2", Answered("two"))) == ["c3"]
    assert machine.resulted("c3", Answered("three")) == []
    give, ask = machine.resulted("c1", Answered("one"))
    assert isinstance(give, Give)
    assert [outcome for _, outcome, _ in give.results] == [Answered("one"), Answered("two"), Answered("three")]
    assert ask == Ask()


def test_a_result_that_comes_twice_or_for_nobody_changes_nothing() -> None:
    machine = Machine()
    machine.begin()
    machine.replied(calling(call(1), call(2)))
    machine.resulted("c1", Answered("one"))
    assert machine.resulted("c1", Answered("again")) == []
    assert machine.resulted("nobody", Answered("x")) == []


def test_a_call_that_needs_leave_is_asked_for_once_while_the_others_run() -> None:
    machine = Machine()
    machine.begin()
    steps = machine.replied(calling(call(1), call(2, "send")), frozenset({"c2"}))
    assert [type(step) for step in steps] == [Seek, Run]
    assert machine.resulted("c1", Answered("one")) == []
    assert machine.state is State.WAITING
    assert runs(machine.approved("c2")) == ["c2"]
    assert machine.approved("c2") == []
    assert machine.denied("c2") == []


def test_what_was_approved_with_other_arguments_runs_with_those() -> None:
    machine = Machine()
    machine.begin()
    machine.replied(calling(call(1, "send")), frozenset({"c1"}))
    (step,) = machine.approved("c1", '{"n": 7}')
    assert isinstance(step, Run)
    assert step.call.arguments == {"n": 7}


def test_a_denial_is_told_to_the_model() -> None:
    machine = Machine()
    machine.begin()
    machine.replied(calling(call(1, "send")), frozenset({"c1"}))
    give, ask = machine.denied("c1", "not today")
    assert isinstance(give, Give)
    assert give.results[0][1] == Answered("denied: not today", is_error=True, code="denied")
    assert ask == Ask()


def test_at_the_limit_of_rounds_the_model_is_asked_for_its_answer_without_tools() -> None:
    machine = Machine(Policy(rounds=2))
    machine.begin()
    for number in (1, 2):
        machine.replied(calling(call(number)))
        steps = machine.resulted(f"c{number}", Answered(number))
    assert isinstance(steps[-1], Ask)
    assert steps[-1].is_last
    assert "2 rounds" in steps[-1].words
    assert machine.replied(calling(call(3))) == [End(State.DONE)]


@pytest.mark.parametrize(
    "policy, seconds, content", [(Policy(seconds=5), 6.0, "x"), (Policy(result_bytes=10), 0.0, "x" * 11)]
)
def test_time_and_bytes_end_it_too(policy: Policy, seconds: float, content: str) -> None:
    machine = Machine(policy)
    machine.begin()
    machine.replied(calling(call(1)))
    machine.elapsed(seconds)
    steps = machine.resulted("c1", Answered(content))
    assert isinstance(steps[-1], Ask)
    assert steps[-1].is_last


def test_the_same_call_with_the_same_result_is_hinted_at_and_then_stopped() -> None:
    machine = Machine(Policy(rounds=9))
    machine.begin()
    hints: list[str] = []
    for number in (1, 2, 3):
        machine.replied(calling(call(number, size=5)))
        give, ask = machine.resulted(f"c{number}", Answered("same"))
        assert isinstance(give, Give)
        assert isinstance(ask, Ask)
        hints.append(give.results[0][2])
    assert [bool(hint) for hint in hints] == [False, True, False]
    assert ask.is_last


def test_a_tool_that_was_called_often_enough_is_refused_and_the_others_go_on() -> None:
    machine = Machine(Policy(calls_per_tool=1))
    machine.begin()
    steps = machine.replied(calling(call(1), call(2), call(3, "other")))
    assert runs(steps) == ["c1", "c3"]


def test_what_cannot_happen_is_a_fault_of_the_driver() -> None:
    with pytest.raises(MachineFault):
        Machine().replied(Reply.of("too early"))
    machine = Machine()
    machine.begin()
    with pytest.raises(MachineFault):
        machine.begin()


def test_cancelling_ends_it_from_anywhere_and_once() -> None:
    machine = Machine()
    machine.begin()
    assert machine.cancel() == [End(State.STOPPED)]
    assert machine.cancel() == []


OUTCOMES = st.sampled_from([Answered("a"), Answered({"b": 1}), NotDelivered("gone"), Unknown("late")])


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 5))
def test_whatever_happens_in_whatever_order_each_call_runs_at_most_once_and_the_loop_ends(
    seed: int, width: int, rounds: int
) -> None:
    luck = random.Random(seed)
    policy = Policy(width=width, rounds=rounds)
    machine = Machine(policy)
    handed_out: list[str] = []
    given_back: list[str] = []
    steps, number = machine.begin(), 0
    for _ in range(500):
        if machine.state in (State.DONE, State.STOPPED):
            break
        # Taken up by another process between any two steps.
        machine = Machine.from_dict(json.loads(json.dumps(machine.as_dict())), policy)
        for step in steps:
            if isinstance(step, Run):
                handed_out.append(step.call.id)
            elif isinstance(step, Give):
                given_back += [call.id for call, _, _ in step.results]
        assert len(machine.under_way) <= width
        steps, number = _something(machine, luck, number)
    assert machine.state is State.DONE
    assert len(handed_out) == len(set(handed_out))
    assert len(given_back) == len(set(given_back))
    assert machine.spent.rounds <= rounds


def _something(machine: Machine, luck: random.Random, number: int) -> tuple[list[Step], int]:
    if machine.state in (State.ASKING, State.CLOSING):
        count = luck.choice([0, 1, 2, 5])
        calls = [call(number + n, luck.choice(["add", "send"])) for n in range(count)]
        needs = frozenset(one.id for one in calls if one.name == "send" and luck.random() < 0.5)
        return machine.replied(calling(*calls) if calls else Reply.of("done"), needs), number + count
    outcomes: list[Outcome] = [Answered("a"), Answered({"b": luck.random()}), NotDelivered("gone"), Unknown("late")]
    anyone = luck.choice([one.id for one in (*machine.under_way, *machine.waits_for)])
    happening = luck.choice([Happening.RESULTED, Happening.APPROVED, Happening.DENIED])
    if happening is Happening.RESULTED:
        return machine.resulted(anyone, luck.choice(outcomes)), number
    return (machine.approved(anyone) if happening is Happening.APPROVED else machine.denied(anyone)), number


def test_what_was_spent_comes_back_from_json() -> None:
    spent = Spent(rounds=2, seconds=1.5)
    spent.note_call(call(1))
    spent.note_result(call(1), Answered("x"))
    assert Spent.from_dict(json.loads(json.dumps(spent.as_dict()))) == spent
