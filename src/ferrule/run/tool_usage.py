"""ToolUsage: which of the offered tools one reply of a model called, and how well. It counts and stores nothing.

These terms are used for tool statistics everywhere. For one model, one tool and one definition of the tool:

- offered: replies whose request allowed the model to call the tool. demanded: those of them in which it was the only
  tool and a call was required, so that the model had no choice.
- picked: calls that name the tool and were passed on.
- wrong: calls that name it whose arguments were invalid. They were repaired, and then count as picked too, or refused.
- cut off: calls that the end of the token budget interrupted. It is unknown whether they would have been valid.
- retried: calls after an error, where that error was the last result of the same tool in the conversation.
- repeated: calls with the same arguments as an earlier call of the same tool in the conversation.
- missed: calls of a name that was not offered, counted for the tool whose name is closest to it; and replies without
  any call where exactly this tool was demanded.

A reply does not show whether another tool would have been the better choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from enum import StrEnum
from statistics import median
from typing import Any

from ferrule.core.call import How, ToolCall, ToolResult
from ferrule.core.event import FinishReason
from ferrule.core.json_text import canonical, dumps, loads
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ChoiceMode, ToolCallRequest
from ferrule.core.tool import ToolDefinition

MAX_NAME = 128
"""The maximum length of a tool's name; a longer name that a model writes is cut to this length."""
SHORT_HASH = 8
"""How many characters of a definition's fingerprint are shown to people."""


class AttemptStatus(StrEnum):
    """What happened to a call that a model wrote, before anything ran. The values are stored in ledgers.

    ACCEPTED: passed on as it was first written. REPAIRED: passed on after its arguments were generated again. REFUSED:
    it was invalid. CUT_OFF: the token budget ended inside it. NOT_OFFERED: it names a tool that was not offered.
    """

    ACCEPTED = "handed_on"
    REPAIRED = "repaired"
    REFUSED = "refused"
    CUT_OFF = "cut_off"
    NOT_OFFERED = "not_offered"


PICKED = frozenset({AttemptStatus.ACCEPTED, AttemptStatus.REPAIRED})
WRONG = frozenset({AttemptStatus.REPAIRED, AttemptStatus.REFUSED})


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """One call that a model wrote. `tool` is the offered tool that it names or is closest to; empty without one."""

    tool: str
    status: AttemptStatus
    name: str
    """The name as the model wrote it."""
    number: int | None = None
    """Its index among the complete calls of the reply."""
    is_retried: bool = False
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """The tool calls of one reply. With `is_required` it had to call one of the offered tools."""

    offered: tuple[ToolDefinition, ...]
    attempts: tuple[CallAttempt, ...] = ()
    is_required: bool = False

    @property
    def required_tool(self) -> str:
        """The tool that had to be called, if it was the only one; otherwise empty."""
        return self.offered[0].name if self.is_required and len(self.offered) == 1 else ""

    @property
    def is_unanswered(self) -> bool:
        """Whether a call was required and none was written."""
        return self.is_required and not self.attempts


def tool_usage_of(request: ToolCallRequest, reply: Reply) -> ToolUsage | None:
    """Compare a reply with its request; None where no tool was offered."""
    offered = _offered_tools(request)
    if reply.loaded is not None:
        # The model saw some of them, and searched for the others.
        offered = tuple(tool for tool in offered if tool.name in reply.loaded)
    if not offered:
        return None
    names = [tool.name for tool in offered]
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    history = _History.of(request.messages, {call.name for call in calls})
    was_cut_off = reply.finish in (FinishReason.LENGTH, None)
    attempts: list[CallAttempt] = []
    complete_count = 0
    for calls_after, call in zip(range(len(calls) - 1, -1, -1), calls, strict=True):
        status = _status_of(call, names, is_cut_off=was_cut_off and not calls_after)
        tool = call.name if call.name in names else closest_name(call.name, names)
        number = complete_count if call.complete else None
        complete_count += call.complete
        is_repeated = status in PICKED and history.has(call)
        is_retried = status in PICKED and history.failed.get(call.name, False)
        attempts.append(CallAttempt(tool, status, call.name[:MAX_NAME], number, is_retried, is_repeated))
        history.add(call)
    return ToolUsage(offered, tuple(attempts), request.choice.mode is ChoiceMode.REQUIRED)


def closest_name(name: str, names: Iterable[str]) -> str:
    """Return the name in `names` that is most similar to `name`; empty if none is similar."""
    by_folded_name = {each.casefold(): each for each in names}
    matches = get_close_matches(name[:MAX_NAME].casefold(), by_folded_name, 1)
    return by_folded_name[matches[0]] if matches else ""


def _offered_tools(request: ToolCallRequest) -> tuple[ToolDefinition, ...]:
    """Return the tools that the choice allows. A choice that names unknown tools is no error here, after the fact."""
    choice = request.choice
    if choice.mode is ChoiceMode.NONE:
        return ()
    return tuple(tool for tool in request.tools if choice.names is None or tool.name in choice.names)


def _status_of(call: ToolCall, names: list[str], *, is_cut_off: bool) -> AttemptStatus:
    if not call.complete and is_cut_off:
        return AttemptStatus.CUT_OFF
    if call.name not in names:
        return AttemptStatus.NOT_OFFERED
    if not call.complete:
        return AttemptStatus.REFUSED
    is_repaired = call.receipt is not None and call.receipt.how is How.REPAIRED
    return AttemptStatus.REPAIRED if is_repaired else AttemptStatus.ACCEPTED


@dataclass(slots=True)
class _History:
    """The earlier calls of some tools. `failed` says whether a tool's last result was an error."""

    failed: dict[str, bool] = field(default_factory=dict[str, bool])
    _calls: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    @staticmethod
    def of(messages: Iterable[ChatMessage], names: set[str]) -> _History:
        history = _History()
        if not names:
            return history
        ids: dict[str, str] = {}
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolCall) and part.name in names:
                    ids[part.id] = part.name
                    history.add(part)
                elif isinstance(part, ToolResult):
                    # Not every API repeats the tool's name beside the result.
                    history.failed[part.name or ids.get(part.tool_call_id, "")] = part.is_error
        return history

    def has(self, call: ToolCall) -> bool:
        return _call_key(call) in self._calls

    def add(self, call: ToolCall) -> None:
        if call.complete:
            self._calls.add(_call_key(call))


def _call_key(call: ToolCall) -> tuple[str, str]:
    """Return a key that is the same however the arguments are formatted."""
    try:
        return call.name, canonical(loads(call.function.arguments))
    except (ValueError, RecursionError):
        return call.name, call.function.arguments


# Tool statistics of a ledger: the query, and the report. Values only.
#
# `run.tool_usage` defines the terms. Two more come from what happened to a call after it was picked: failed (it was
# started, and its result was an error or is unknown) and denied (a person denied it).


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """Whose calls, since when, of which tool. None means everybody; on behalf of a user, set the tenant."""

    tenant: str | None = None
    principal: str | None = None
    since: float = 0.0
    tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCounts:
    """Counts for one row. `picked` includes the repaired calls; `wrong` is the repaired and the refused ones."""

    offered: int = 0
    demanded: int = 0
    picked: int = 0
    repaired: int = 0
    refused: int = 0
    cut_off: int = 0
    failed: int = 0
    denied: int = 0
    retried: int = 0
    repeated: int = 0
    missed: int = 0

    @property
    def wrong(self) -> int:
        return self.repaired + self.refused

    @property
    def wrong_share(self) -> float | None:
        """The share of wrong calls among those that were picked or refused; None if there are none."""
        total = self.picked + self.refused
        return self.wrong / total if total else None

    def __add__(self, other: UsageCounts) -> UsageCounts:
        names = [one.name for one in fields(UsageCounts)]
        return UsageCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "wrong": self.wrong, "wrong_share": self.wrong_share}


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One model, one tool, one definition of it. With an empty tool: misses that are close to no tool."""

    model: str
    tool: str
    fingerprint: str
    description: str
    first_at: float | None
    last_at: float | None
    """When it was first and last offered."""
    counts: UsageCounts

    def as_dict(self) -> dict[str, Any]:
        identity = {"model": self.model, "tool": self.tool, "fingerprint": self.fingerprint}
        details = {"description": self.description, "first_at": self.first_at, "last_at": self.last_at}
        return {**identity, **details, **self.counts.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSummary:
    """One tool, over all models and definitions. `loaded` are the replies that could have called it."""

    tool: str
    loaded: int = 0
    called: int = 0
    failed: int = 0
    denied: int = 0
    seconds_p50: float | None = None
    """The median time of its newest calls that have ended; None without one."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def definition_tokens(tool: ToolDefinition) -> int:
    """Estimate how many tokens a tool's definition takes in a prompt, at four characters each."""
    return -(-len(dumps(tool.as_function())) // 4)


def summarize_tools(report: UsageReport, seconds: Iterable[tuple[str, float]]) -> tuple[ToolSummary, ...]:
    """Return one summary for each tool, the most called first. `seconds` are the times of calls, each with its tool."""
    counts: dict[str, UsageCounts] = {}
    for row in report.rows:
        if row.tool:
            counts[row.tool] = counts.get(row.tool, UsageCounts()) + row.counts
    times: dict[str, list[float]] = {}
    for tool, took in seconds:
        times.setdefault(tool, []).append(took)
    summaries = [
        ToolSummary(
            tool=tool,
            loaded=one.offered,
            called=one.picked,
            failed=one.failed,
            denied=one.denied,
            seconds_p50=median(times[tool]) if tool in times else None,
        )
        for tool, one in counts.items()
    ]
    return tuple(sorted(summaries, key=lambda one: (-one.called, -one.loaded, one.tool)))


@dataclass(frozen=True, slots=True)
class UnknownToolName:
    """A tool name that a model wrote and that was not offered, with the offered tool that is closest to it."""

    model: str
    wrote: str
    tool: str
    count: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows with the most used tools first, and the unknown names that models wrote most often."""

    rows: tuple[UsageRow, ...] = ()
    unknown_names: tuple[UnknownToolName, ...] = ()
