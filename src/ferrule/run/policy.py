"""Policy: the limits of a loop, and what each says when it is reached. No IO, no clock: time is given in.

A governor and not a counter: besides rounds, time and bytes it looks for progress. The same call with the same result
is told to the model the second time and ends the loop the third.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.json_text import canonical, fingerprint
from ferrule.core.outcome import Answered, Outcome

HINT_AT, STOP_AT = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """None is no limit. `rounds` counts answers of the model that call tools; `width` is how many run at once."""

    rounds: int = 6
    seconds: float | None = 300.0
    result_bytes: int | None = 1_000_000
    calls: int | None = None
    calls_per_tool: int | None = None
    width: int = 4
    tool_seconds: float = 30.0
    confirms_side_effects: bool = True


@dataclass(slots=True)
class Spent:
    """What a loop has used up so far; JSON, so that it outlives the process."""

    rounds: int = 0
    seconds: float = 0.0
    result_bytes: int = 0
    calls: dict[str, int] = field(default_factory=dict[str, int])
    seen: dict[str, int] = field(default_factory=dict[str, int])
    """How often each call came with each result."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(held: Mapping[str, Any]) -> Spent:
        return Spent(**held)

    def note_call(self, call: ToolCall) -> None:
        self.calls[call.name] = self.calls.get(call.name, 0) + 1

    def note_result(self, call: ToolCall, outcome: Outcome) -> int:
        """How often this very call has had this very result, this time included."""
        content = outcome.content if isinstance(outcome, Answered) else outcome.reason
        text = content if isinstance(content, str) else canonical(content)
        self.result_bytes += len(text.encode("utf-8", "surrogatepass"))
        key = fingerprint([call.name, _same(call), type(outcome).__name__, text])
        self.seen[key] = self.seen.get(key, 0) + 1
        return self.seen[key]


def limit_reached(policy: Policy, spent: Spent) -> str:
    """Which limit ends the loop, as a sentence for the model; empty where it may go on."""
    if spent.rounds >= policy.rounds:
        rounds = "the one round is" if policy.rounds == 1 else f"{policy.rounds} rounds are"
        return f"No more tools can be called: {rounds} used up."
    if policy.seconds is not None and spent.seconds >= policy.seconds:
        return f"No more tools can be called: {policy.seconds:g} seconds are used up."
    if policy.result_bytes is not None and spent.result_bytes >= policy.result_bytes:
        return "No more tools can be called: their results are as long as they may be."
    if any(count >= STOP_AT for count in spent.seen.values()):
        return "No more tools can be called: the same call keeps giving the same result."
    return ""


def refusal_of(policy: Policy, spent: Spent, call: ToolCall) -> str:
    """Why this one call may not run, as a sentence for the model; empty where it may."""
    if policy.calls is not None and sum(spent.calls.values()) >= policy.calls:
        return f"{policy.calls} tools may be called in all, and they have been. Use what they gave you."
    most = policy.calls_per_tool
    if most is not None and spent.calls.get(call.name, 0) >= most:
        return f"{call.name} may be called {most} times, and it has been. Use what it gave you."
    return ""


def hint_for(times: int) -> str:
    """What is added to a result that has come before."""
    return "This is the same result as before. Do something else, or answer." if times == HINT_AT else ""


def _same(call: ToolCall) -> str:
    try:
        return canonical(call.arguments)
    except ValueError:
        return call.function.arguments
