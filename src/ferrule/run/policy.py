"""Policy: the limits of a loop, and the message for the model when one is reached. No IO and no clock.

Besides rounds, time and bytes it checks for progress. When the same call has the same result a second time, the model
gets a hint; the third time ends the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.json_text import canonical, digest, fingerprint
from ferrule.core.outcome import Answered, Outcome

HINT_AT, STOP_AT = 2, 3
REPEAT_HINT = "This is the same result as before. Do something else, or answer."


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of one loop; None is no limit.

    `rounds` counts the replies that call tools. `max_concurrent` is how many calls run at once.
    """

    rounds: int = 6
    seconds: float | None = 300.0
    result_bytes: int | None = 1_000_000
    calls: int | None = None
    calls_per_tool: int | None = None
    max_concurrent: int = 4
    tool_seconds: float = 30.0
    confirms_side_effects: bool = True


@dataclass(slots=True)
class BudgetUsage:
    """How much of its limits a loop has used. It is JSON, so that another process can continue the loop."""

    rounds: int = 0
    seconds: float = 0.0
    result_bytes: int = 0
    calls: dict[str, int] = field(default_factory=dict[str, int])
    seen: dict[str, int] = field(default_factory=dict[str, int])
    """How often each call had each result, by fingerprint. The field names are stored in ledgers."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "rounds": self.rounds,
            "seconds": self.seconds,
            "result_bytes": self.result_bytes,
            "calls": dict(self.calls),
            "seen": dict(self.seen),
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> BudgetUsage:
        return BudgetUsage(**data)

    def count_call(self, call: ToolCall) -> None:
        self.calls[call.name] = self.calls.get(call.name, 0) + 1

    def count_result(self, call: ToolCall, outcome: Outcome) -> int:
        """Count a result and return how often this call has had it, this time included."""
        content = outcome.content if isinstance(outcome, Answered) else outcome.reason
        text = content if isinstance(content, str) else canonical(content)
        if isinstance(outcome, Answered) and outcome.media:
            text += digest([one.as_dict() for one in outcome.media])
        self.result_bytes += len(text.encode("utf-8", "surrogatepass"))
        return self._count(f"{_call_key(call)}.{fingerprint([type(outcome).__name__, text])}")

    def count_refusal(self, call: ToolCall, outcome: Outcome) -> int:
        """Count a call that did not run. If it has had a result, it counts as one more of the same."""
        earlier = self._results_of(call)
        return self._count(max(earlier, key=self.seen.__getitem__)) if earlier else self.count_result(call, outcome)

    def repeats_of(self, call: ToolCall) -> int:
        """Return how often this call has had the same result."""
        return max((self.seen[key] for key in self._results_of(call)), default=0)

    def _count(self, key: str) -> int:
        self.seen[key] = self.seen.get(key, 0) + 1
        return self.seen[key]

    def _results_of(self, call: ToolCall) -> list[str]:
        prefix = f"{_call_key(call)}."
        return [key for key in self.seen if key.startswith(prefix)]


def limit_notice(policy: Policy, usage: BudgetUsage) -> str:
    """Return which limit ends the loop, as a sentence for the model; empty while the loop may continue."""
    if usage.rounds >= policy.rounds:
        rounds = "the one round is" if policy.rounds == 1 else f"{policy.rounds} rounds are"
        return f"No more tools can be called: {rounds} used up."
    if policy.seconds is not None and usage.seconds >= policy.seconds:
        return f"No more tools can be called: {policy.seconds:g} seconds are used up."
    if policy.result_bytes is not None and usage.result_bytes >= policy.result_bytes:
        return "No more tools can be called: their results are as long as they may be."
    if any(count >= STOP_AT for count in usage.seen.values()):
        return "No more tools can be called: the same call keeps giving the same result."
    return ""


def refusal_of(policy: Policy, usage: BudgetUsage, call: ToolCall) -> str:
    """Return why this call may not run, as a sentence for the model; empty where it may."""
    if policy.calls is not None and sum(usage.calls.values()) >= policy.calls:
        return f"{policy.calls} tools may be called in all, and they have been. Use what they gave you."
    most = policy.calls_per_tool
    if most is not None and usage.calls.get(call.name, 0) >= most:
        return f"{call.name} may be called {most} times, and it has been. Use what it gave you."
    return ""


def hint_for(times: int) -> str:
    """Return the hint that is appended to a repeated result; empty for the others."""
    return REPEAT_HINT if times == HINT_AT else ""


def _call_key(call: ToolCall) -> str:
    try:
        arguments = canonical(call.arguments)
    except ValueError:
        arguments = call.function.arguments
    return fingerprint([call.name, arguments])
