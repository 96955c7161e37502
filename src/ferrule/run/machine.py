"""Machine: decides the next step of a loop from what happened. No IO, no clock, no task; whoever drives it does those.

What may happen in which state is the table `TRANSITIONS`, from which the diagram in the docs is drawn. Its whole state
is JSON, so that another process can take it up where it was left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.reply import Reply
from ferrule.run.policy import Policy, Spent, hint_for, limit_reached, refusal_of


class State(StrEnum):
    """ASKING: the model writes. RUNNING: calls are under way. WAITING: nothing is but for people to decide."""

    READY = "ready"
    ASKING = "asking"
    RUNNING = "running"
    WAITING = "waiting"
    CLOSING = "closing"
    """The model writes its answer, with no tools left to call."""
    DONE = "done"
    STOPPED = "stopped"


class Happening(StrEnum):
    """What the outside tells the machine."""

    BEGUN = "begun"
    ANSWERED = "answered"
    CALLED = "called"
    RESULTED = "resulted"
    APPROVED = "approved"
    DENIED = "denied"
    CANCELLED = "cancelled"


# In which state what may happen, and which states it can lead to. Everything else is a fault of the driver.
TRANSITIONS: Mapping[tuple[State, Happening], tuple[State, ...]] = {
    (State.READY, Happening.BEGUN): (State.ASKING,),
    (State.ASKING, Happening.ANSWERED): (State.DONE,),
    (State.ASKING, Happening.CALLED): (State.RUNNING, State.WAITING, State.ASKING, State.CLOSING),
    (State.RUNNING, Happening.RESULTED): (State.RUNNING, State.WAITING, State.ASKING, State.CLOSING),
    (State.RUNNING, Happening.APPROVED): (State.RUNNING,),
    (State.RUNNING, Happening.DENIED): (State.RUNNING,),
    (State.WAITING, Happening.APPROVED): (State.RUNNING,),
    (State.WAITING, Happening.DENIED): (State.WAITING, State.ASKING, State.CLOSING),
    (State.CLOSING, Happening.ANSWERED): (State.DONE,),
    (State.CLOSING, Happening.CALLED): (State.DONE,),
    **{
        (state, Happening.CANCELLED): (State.STOPPED,)
        for state in (State.READY, State.ASKING, State.RUNNING, State.WAITING, State.CLOSING)
    },
}


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model. `is_last`: no tool may be called, and `words`, if any, are told to it first."""

    is_last: bool = False
    words: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """Run this call."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Seek:
    """Ask a person for leave to run this call."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Give:
    """The results of a round are together, in the order of the calls: they go to the model now."""

    results: tuple[tuple[ToolCall, Outcome, str], ...]
    """A call, what became of it, and a hint to add."""


@dataclass(frozen=True, slots=True)
class End:
    """The loop is over."""

    state: State


Step: TypeAlias = Ask | Run | Seek | Give | End


class MachineFault(AssertionError):
    """The driver told the machine something that cannot happen now."""


class Stage(StrEnum):
    """Where one call of a round is. UNASKED and ASKED: a person must allow it, and has not been or has been asked."""

    UNASKED = "unasked"
    ASKED = "asked"
    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(slots=True)
class _Open:
    """One call of the round."""

    call: ToolCall
    stage: Stage
    outcome: Outcome | None = None
    hint: str = ""

    def end(self, outcome: Outcome, hint: str = "") -> None:
        self.stage, self.outcome, self.hint = Stage.ENDED, outcome, hint


@dataclass(slots=True)
class Machine:
    """One loop. Every method takes a happening and gives the steps that follow from it."""

    policy: Policy = field(default_factory=Policy)
    state: State = State.READY
    spent: Spent = field(default_factory=Spent)
    _round: list[_Open] = field(default_factory=list[_Open])

    def begin(self) -> list[Step]:
        self._move(Happening.BEGUN, State.ASKING)
        return [Ask()]

    def resume(self) -> list[Step]:
        """The steps that were under way when it was written down; whoever takes it up does them, again or at last."""
        match self.state:
            case State.READY:
                return self.begin()
            case State.ASKING:
                return [Ask()]
            case State.CLOSING:
                return [Ask(is_last=True, words=limit_reached(self.policy, self.spent))]
            case State.RUNNING | State.WAITING:
                return [*map(Run, self.under_way), *map(Seek, self.waits_for)]
            case State.DONE | State.STOPPED:
                return [End(self.state)]

    def place_of(self, call_id: str) -> str:
        """Where a call stands in the loop: its round and its place there. A model may write the same id twice."""
        places = [number for number, one in enumerate(self._round) if one.call.id == call_id]
        return f"{self.spent.rounds}.{places[0] if places else 0}"

    def replied(self, reply: Reply, needs_leave: frozenset[str] = frozenset()) -> list[Step]:
        """The model has answered. `needs_leave` are the ids of calls that a person must allow."""
        if self.state is State.CLOSING or not reply.calls:
            self._move(Happening.CALLED if reply.calls else Happening.ANSWERED, State.DONE)
            return [End(State.DONE)]
        self.spent.rounds += 1
        self._round = [_Open(call, Stage.UNASKED if call.id in needs_leave else Stage.QUEUED) for call in reply.calls]
        for one in self._round:
            why_not = refusal_of(self.policy, self.spent, one.call)
            self.spent.note_call(one.call)
            if why_not:
                one.end(Answered(why_not, is_error=True, code="budget_exhausted"))
        return self._onward(Happening.CALLED)

    def resulted(self, call_id: str, outcome: Outcome) -> list[Step]:
        """A call has ended, one way or another. One that comes twice, from a bus for instance, changes nothing."""
        one = self._find(call_id)
        if one is None or one.stage is not Stage.RUNNING:
            return []
        one.end(outcome, hint_for(self.spent.note_result(one.call, outcome)))
        return self._onward(Happening.RESULTED)

    def approved(self, call_id: str, arguments: str | None = None) -> list[Step]:
        """A person allowed a call, perhaps with other arguments. A second click changes nothing."""
        one = self._find(call_id)
        if one is None or one.stage is not Stage.ASKED:
            return []
        one.stage = Stage.QUEUED
        if arguments is not None:
            one.call = ToolCall(one.call.id, FunctionCall(one.call.name, arguments), receipt=one.call.receipt)
        return self._onward(Happening.APPROVED)

    def denied(self, call_id: str, why: str = "") -> list[Step]:
        """A person refused a call; the model is told."""
        one = self._find(call_id)
        if one is None or one.stage is not Stage.ASKED:
            return []
        one.end(denial(why))
        return self._onward(Happening.DENIED)

    def elapsed(self, seconds: float) -> None:
        """So much time has been spent in all."""
        self.spent.seconds = seconds

    def cancel(self) -> list[Step]:
        if self.state in OVER:
            return []
        self._move(Happening.CANCELLED, State.STOPPED)
        return [End(State.STOPPED)]

    @property
    def waits_for(self) -> tuple[ToolCall, ...]:
        """The calls that people have yet to decide on."""
        return self._at(Stage.ASKED)

    @property
    def under_way(self) -> tuple[ToolCall, ...]:
        """The calls that were handed out and have not ended."""
        return self._at(Stage.RUNNING)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the policy, as JSON."""
        return {
            "state": self.state.value,
            "spent": self.spent.as_dict(),
            "round": [
                {
                    "id": one.call.id,
                    "name": one.call.name,
                    "arguments": one.call.function.arguments,
                    "stage": one.stage.value,
                    "outcome": outcome_as_dict(one.outcome),
                    "hint": one.hint,
                }
                for one in self._round
            ],
        }

    @staticmethod
    def from_dict(held: Mapping[str, Any], policy: Policy) -> Machine:
        """The same machine in another process."""
        opened = [
            _Open(
                ToolCall(one["id"], FunctionCall(one["name"], one["arguments"])),
                Stage(one["stage"]),
                outcome_from_dict(one["outcome"]),
                one["hint"],
            )
            for one in held["round"]
        ]
        return Machine(policy, State(held["state"]), Spent.from_dict(held["spent"]), opened)

    def _at(self, stage: Stage) -> tuple[ToolCall, ...]:
        return tuple(one.call for one in self._round if one.stage is stage)

    def _find(self, call_id: str) -> _Open | None:
        return next((one for one in self._round if one.call.id == call_id), None)

    def _move(self, happening: Happening, to: State) -> None:
        if to not in TRANSITIONS.get((self.state, happening), ()):
            raise MachineFault(f"{happening} cannot lead from {self.state} to {to}")
        self.state = to

    def _onward(self, happening: Happening) -> list[Step]:
        """What follows now that something of the round has changed."""
        steps: list[Step] = []
        for one in self._round:
            if one.stage is Stage.UNASKED:
                one.stage = Stage.ASKED
                steps.append(Seek(one.call))
        for one in self._round:
            if one.stage is Stage.QUEUED and len(self.under_way) < self.policy.width:
                one.stage = Stage.RUNNING
                steps.append(Run(one.call))
        if self.under_way:
            self._move(happening, State.RUNNING)
        elif self.waits_for:
            self._move(happening, State.WAITING)
        else:
            steps += self._given(happening)
        return steps

    def _given(self, happening: Happening) -> list[Step]:
        """The round is over: its results together, and the next question."""
        results = tuple((one.call, one.outcome, one.hint) for one in self._round if one.outcome is not None)
        self._round = []
        words = limit_reached(self.policy, self.spent)
        self._move(happening, State.CLOSING if words else State.ASKING)
        return [Give(results), Ask(is_last=bool(words), words=words)]


OVER = (State.DONE, State.STOPPED)
_KINDS: Mapping[str, type[Answered] | type[NotDelivered] | type[Unknown]] = {
    "answered": Answered,
    "not_delivered": NotDelivered,
    "unknown": Unknown,
}


def denial(why: str) -> Answered:
    """What the model reads of a call that a person refused."""
    return Answered(f"denied: {why}" if why else "denied by the user", is_error=True, code="denied")


def outcome_as_dict(outcome: Outcome | None) -> dict[str, Any] | None:
    """An outcome as JSON; its content must be JSON already."""
    if outcome is None:
        return None
    kind = next(name for name, held in _KINDS.items() if isinstance(outcome, held))
    return {"kind": kind, **asdict(outcome)}


def outcome_from_dict(held: Mapping[str, Any] | None) -> Outcome | None:
    if held is None:
        return None
    fields = {name: value for name, value in held.items() if name != "kind"}
    return _KINDS[held["kind"]](**fields)
