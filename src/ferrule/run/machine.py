"""Machine: the state machine of the tool loop. It takes what happened and returns the next steps.

The problem
    A model answers, or calls tools, reads their results and calls again. Calls run side by side, some must be approved
    by a person first, results arrive in any order and sometimes twice, a limit can be reached in the middle, and the
    process can die at any point. If the code that does the IO also decides what comes next, each of these cases has
    to be reproduced with real tasks and real time to be tested, and nobody can say which states exist.

The shape
    The decisions are here, without IO, clock or tasks. A driver (`run.loop`) does the work and reports back:

    - A method such as `accept_reply`, `accept_outcome`, `approve` or `deny` tells the machine that something happened
      and returns the steps that follow, as values: `AskModel`, `RunCall`, `RequestApproval`, `AppendResults`,
      `EndLoop`.
    - `TRANSITIONS` lists which trigger is allowed in which state, and where it can lead. Anything else is a bug of
      the driver and raises `TransitionError`. The diagram in the documentation is drawn from this table.
    - Time is a number that the driver hands in (`set_elapsed`), so a test needs no clock.

    Above the states is the *round*: the calls of one reply. Each call has a stage of its own (needs approval, awaiting
    approval, queued, running, ended), and the state of the machine follows from the stages: RUNNING while any call
    runs, WAITING when only people can continue, and otherwise the round is over. Results go to the model together and
    in the order of the calls, whatever order they arrived in, because chat templates expect one answer for each call.

Why a report may come twice
    A bus can deliver a result twice and a person can click twice. A report about a call that is not in the stage which
    it fits changes nothing and returns no steps. So a machine that is not resumed hands out each call at most once.

Limits
    `run.policy` decides when a limit is reached. The machine never cuts a round off: it finishes it, then asks the
    model for its answer with no tools left to call (CLOSING), and says which limit was reached. A call in that last
    answer is ignored.

Resuming
    The whole state is JSON (`as_dict`, `from_dict`). `resume` returns the steps that were in progress when it was
    saved, so another process does them again. That alone would run an effect twice; the journal of the driver
    (`run.journal`) is what prevents it. The journal finds a call by its place (`place_of`: its round and its position
    there) and not by its id, because models repeat ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.media import Media
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.reply import Reply
from ferrule.run.policy import BudgetUsage, Policy, hint_for, limit_notice, refusal_of


class State(StrEnum):
    """ASKING: the model writes. RUNNING: calls run. WAITING: only approvals are pending."""

    READY = "ready"
    ASKING = "asking"
    RUNNING = "running"
    WAITING = "waiting"
    CLOSING = "closing"
    """The model writes its final answer, with no tools left to call."""
    DONE = "done"
    STOPPED = "stopped"


class Trigger(StrEnum):
    """What the driver reports to the machine."""

    STARTED = "started"
    ANSWERED = "answered"
    TOOL_CALLS = "called"
    CALL_FINISHED = "finished"
    APPROVED = "approved"
    DENIED = "denied"
    CANCELLED = "cancelled"


# Which trigger is allowed in which state, and the states it can lead to. Everything else is a bug of the driver.
TRANSITIONS: Mapping[tuple[State, Trigger], tuple[State, ...]] = {
    (State.READY, Trigger.STARTED): (State.ASKING,),
    (State.ASKING, Trigger.ANSWERED): (State.DONE,),
    (State.ASKING, Trigger.TOOL_CALLS): (State.RUNNING, State.WAITING, State.ASKING, State.CLOSING, State.DONE),
    (State.RUNNING, Trigger.CALL_FINISHED): (State.RUNNING, State.WAITING, State.ASKING, State.CLOSING, State.DONE),
    (State.RUNNING, Trigger.APPROVED): (State.RUNNING,),
    (State.RUNNING, Trigger.DENIED): (State.RUNNING,),
    (State.WAITING, Trigger.APPROVED): (State.RUNNING,),
    (State.WAITING, Trigger.DENIED): (State.WAITING, State.ASKING, State.CLOSING, State.DONE),
    (State.CLOSING, Trigger.ANSWERED): (State.DONE,),
    (State.CLOSING, Trigger.TOOL_CALLS): (State.DONE,),
    **{
        (state, Trigger.CANCELLED): (State.STOPPED,)
        for state in (State.READY, State.ASKING, State.RUNNING, State.WAITING, State.CLOSING)
    },
}


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model. With `is_last` it may not call tools; a `notice` is sent to it first."""

    is_last: bool = False
    notice: str = ""


@dataclass(frozen=True, slots=True)
class RunCall:
    """Run this call."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class RequestApproval:
    """Ask a person to approve this call."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class AppendResults:
    """Append the results of a round to the messages, in the order of the calls."""

    results: tuple[tuple[ToolCall, Outcome, str], ...]
    """Each call with its outcome and a hint to append to the result."""


@dataclass(frozen=True, slots=True)
class EndLoop:
    """The loop is over."""

    state: State


Step: TypeAlias = AskModel | RunCall | RequestApproval | AppendResults | EndLoop


class TransitionError(AssertionError):
    """The driver reported something that cannot happen in this state."""


class Stage(StrEnum):
    """Where one call of a round is. The values are stored in ledgers, so they keep their spelling."""

    NEEDS_APPROVAL = "unasked"
    AWAITING_APPROVAL = "asked"
    QUEUED = "queued"
    RUNNING = "running"
    HANDED_OUT = "handed_out"
    """The caller runs it. The round ends without it, and the loop ends with the round."""
    ENDED = "ended"


@dataclass(slots=True)
class _RoundCall:
    """One call of the current round."""

    call: ToolCall
    stage: Stage
    outcome: Outcome | None = None
    hint: str = ""

    def end(self, outcome: Outcome, hint: str = "") -> None:
        self.stage, self.outcome, self.hint = Stage.ENDED, outcome, hint


@dataclass(slots=True)
class Machine:
    """One run of the loop. Every method reports something that happened and returns the steps that follow from it."""

    policy: Policy = field(default_factory=Policy)
    state: State = State.READY
    usage: BudgetUsage = field(default_factory=BudgetUsage)
    handed_out: tuple[str, ...] = ()
    """The ids of the calls with which the loop ended, because the caller runs them."""
    _round: list[_RoundCall] = field(default_factory=list[_RoundCall])

    def start(self) -> list[Step]:
        self._move(Trigger.STARTED, State.ASKING)
        return [AskModel()]

    def resume(self) -> list[Step]:
        """Return the steps that were in progress when this state was saved. The driver does them again."""
        match self.state:
            case State.READY:
                return self.start()
            case State.ASKING:
                return [AskModel()]
            case State.CLOSING:
                return [AskModel(is_last=True, notice=limit_notice(self.policy, self.usage))]
            case State.RUNNING | State.WAITING:
                return [*map(RunCall, self.running), *map(RequestApproval, self.awaiting_approval)]
            case State.DONE | State.STOPPED:
                return [EndLoop(self.state)]

    def place_of(self, call_id: str) -> str:
        """Return a call's round and its position there. This identifies a call; its id may occur twice."""
        places = [number for number, one in enumerate(self._round) if one.call.id == call_id]
        return f"{self.usage.rounds}.{places[0] if places else 0}"

    def accept_reply(
        self,
        reply: Reply,
        needs_approval: frozenset[str] = frozenset(),
        refusals: Mapping[str, Outcome] = MappingProxyType({}),
        handed_out: frozenset[str] = frozenset(),
    ) -> list[Step]:
        """The model has replied. `needs_approval` are the ids of the calls that a person must approve.

        `refusals` are what the model reads of the calls that will not run, by their ids. `handed_out` are the ids of
        the calls that the caller runs: they count against no limit here.
        """
        if self.state is State.CLOSING or not reply.calls:
            self._move(Trigger.TOOL_CALLS if reply.calls else Trigger.ANSWERED, State.DONE)
            return [EndLoop(State.DONE)]
        self.usage.rounds += 1
        self._round = [
            _RoundCall(
                call,
                Stage.HANDED_OUT
                if call.id in handed_out
                else Stage.NEEDS_APPROVAL
                if call.id in needs_approval
                else Stage.QUEUED,
            )
            for call in reply.calls
        ]
        for one in self._round:
            if one.stage is Stage.HANDED_OUT:
                continue
            refusal = refusal_of(self.policy, self.usage, one.call)
            self.usage.count_call(one.call)
            if refusal:
                one.end(Answered(refusal, is_error=True, code="budget_exhausted"))
            elif one.call.id in refusals:
                outcome = refusals[one.call.id]
                one.end(outcome, hint_for(self.usage.count_refusal(one.call, outcome)))
        return self._advance(Trigger.TOOL_CALLS)

    def accept_outcome(self, call_id: str, outcome: Outcome) -> list[Step]:
        """A call has ended. An outcome that arrives twice, from a bus for example, changes nothing."""
        one = self._find(call_id)
        if one is None or one.stage is not Stage.RUNNING:
            return []
        one.end(outcome, hint_for(self.usage.count_result(one.call, outcome)))
        return self._advance(Trigger.CALL_FINISHED)

    def approve(self, call_id: str, arguments: str | None = None) -> list[Step]:
        """A person approved a call, perhaps with other arguments. A second click changes nothing."""
        one = self._find(call_id)
        if one is None or one.stage is not Stage.AWAITING_APPROVAL:
            return []
        one.stage = Stage.QUEUED
        if arguments is not None:
            one.call = ToolCall(one.call.id, FunctionCall(one.call.name, arguments), receipt=one.call.receipt)
        return self._advance(Trigger.APPROVED)

    def deny(self, call_id: str, why: str = "") -> list[Step]:
        """A person denied a call. The model reads so in its result."""
        return self.refuse(call_id, denial_outcome(why))

    def refuse(self, call_id: str, outcome: Outcome) -> list[Step]:
        """A call that waits for approval will not run. `outcome` is what the model reads as its result."""
        one = self._find(call_id)
        if one is None or one.stage is not Stage.AWAITING_APPROVAL:
            return []
        one.end(outcome)
        return self._advance(Trigger.DENIED)

    def set_elapsed(self, seconds: float) -> None:
        """Set how much time the loop has taken in total."""
        self.usage.seconds = seconds

    def cancel(self) -> list[Step]:
        if self.state in FINAL_STATES:
            return []
        self._move(Trigger.CANCELLED, State.STOPPED)
        return [EndLoop(State.STOPPED)]

    @property
    def callers_calls(self) -> tuple[str, ...]:
        """The ids of the calls of the current round, or of the last one if the loop has ended, that the caller runs."""
        return self.handed_out or tuple(call.id for call in self._at(Stage.HANDED_OUT))

    @property
    def awaiting_approval(self) -> tuple[ToolCall, ...]:
        """The calls whose approval is pending."""
        return self._at(Stage.AWAITING_APPROVAL)

    @property
    def running(self) -> tuple[ToolCall, ...]:
        """The calls that were handed out and have not ended."""
        return self._at(Stage.RUNNING)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the policy, as JSON."""
        return {
            "state": self.state.value,
            "spent": self.usage.as_dict(),
            **({"handed_out": list(self.handed_out)} if self.handed_out else {}),
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
    def from_dict(data: Mapping[str, Any], policy: Policy) -> Machine:
        """Restore a machine from what `as_dict` returned."""
        calls = [
            _RoundCall(
                ToolCall(one["id"], FunctionCall(one["name"], one["arguments"])),
                Stage(one["stage"]),
                outcome_from_dict(one["outcome"]),
                one["hint"],
            )
            for one in data["round"]
        ]
        handed_out = tuple(data.get("handed_out", ()))
        return Machine(policy, State(data["state"]), BudgetUsage.from_dict(data["spent"]), handed_out, calls)

    def _at(self, stage: Stage) -> tuple[ToolCall, ...]:
        return tuple(one.call for one in self._round if one.stage is stage)

    def _find(self, call_id: str) -> _RoundCall | None:
        return next((one for one in self._round if one.call.id == call_id), None)

    def _move(self, trigger: Trigger, to: State) -> None:
        if to not in TRANSITIONS.get((self.state, trigger), ()):
            raise TransitionError(f"{trigger} cannot lead from {self.state} to {to}")
        self.state = to

    def _advance(self, trigger: Trigger) -> list[Step]:
        """Return what follows after a call of the round has changed its stage."""
        steps: list[Step] = []
        for one in self._round:
            if one.stage is Stage.NEEDS_APPROVAL:
                one.stage = Stage.AWAITING_APPROVAL
                steps.append(RequestApproval(one.call))
        for one in self._round:
            if one.stage is Stage.QUEUED and len(self.running) < self.policy.max_concurrent:
                one.stage = Stage.RUNNING
                steps.append(RunCall(one.call))
        if self.running:
            self._move(trigger, State.RUNNING)
        elif self.awaiting_approval:
            self._move(trigger, State.WAITING)
        else:
            steps += self._end_round(trigger)
        return steps

    def _end_round(self, trigger: Trigger) -> list[Step]:
        """Append the results of the round together, and ask the model again unless the caller has calls to run."""
        results = tuple((one.call, one.outcome, one.hint) for one in self._round if one.outcome is not None)
        self.handed_out = tuple(call.id for call in self._at(Stage.HANDED_OUT))
        if self.handed_out:
            self._round = []
            self._move(trigger, State.DONE)
            return [*([AppendResults(results)] if results else []), EndLoop(State.DONE)]
        self._round = []
        notice = limit_notice(self.policy, self.usage)
        self._move(trigger, State.CLOSING if notice else State.ASKING)
        return [AppendResults(results), AskModel(is_last=bool(notice), notice=notice)]


FINAL_STATES = (State.DONE, State.STOPPED)
_KINDS: Mapping[str, type[Answered] | type[NotDelivered] | type[Unknown]] = {
    "answered": Answered,
    "not_delivered": NotDelivered,
    "unknown": Unknown,
}


def denial_outcome(why: str) -> Answered:
    """Return what the model reads as the result of a call that a person denied."""
    return Answered(f"denied: {why}" if why else "denied by the user", is_error=True, code="denied")


def outcome_as_dict(outcome: Outcome | None) -> dict[str, Any] | None:
    """Return an outcome as JSON; its content must be JSON already."""
    if outcome is None:
        return None
    match outcome:
        case Answered(content, is_error, code, media):
            images = {"media": [one.as_dict() for one in media]} if media else {}
            return {"kind": "answered", "content": content, "is_error": is_error, "code": code, **images}
        case NotDelivered(reason, code):
            return {"kind": "not_delivered", "reason": reason, "code": code}
        case Unknown(reason, code):
            return {"kind": "unknown", "reason": reason, "code": code}


def outcome_from_dict(data: Mapping[str, Any] | None) -> Outcome | None:
    """Restore an outcome from what `outcome_as_dict` returned."""
    if data is None:
        return None
    fields = {name: value for name, value in data.items() if name != "kind"}
    if "media" in fields:
        fields["media"] = tuple(map(Media.from_dict, fields["media"]))
    return _KINDS[data["kind"]](**fields)
