"""Count which tools models call, for /metrics. The terms are those of `run.tool_usage`.

The gateway's own tools are counted per definition. All tools of callers share one label, because clients choose their
names and there is no bound on them. The outcome of calls is counted elsewhere, in `ferrule_tool_seconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Event, Finish
from ferrule.core.reply import fold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.run.tool_usage import PICKED, SHORT_HASH, WRONG, AttemptStatus, CallAttempt, tool_usage_of
from ferrule.server.observability.answer_record import CALLER
from ferrule.server.observability.metrics import Counts

CHOICE_EVENTS: frozenset[type] = frozenset({CallStart, ArgumentsDelta, CallEnd, Finish})
"""The events that show which tools were called. There are few of them compared with text events."""
_OwnTools = Mapping[str, ToolDefinition]
_NO_TOOL = ("", "")
_PICK_FAMILIES: Mapping[str, Callable[[CallAttempt], bool]] = {
    "ferrule_tool_picked": lambda pick: pick.status in PICKED,
    "ferrule_tool_wrong": lambda pick: pick.status in WRONG,
    "ferrule_tool_retried": lambda pick: pick.is_retried,
    "ferrule_tool_repeated": lambda pick: pick.is_repeated,
    "ferrule_tool_missed": lambda pick: pick.status is AttemptStatus.NOT_OFFERED,
}


@dataclass(slots=True)
class ToolUsageCounter:
    """Counts tool usage. `own_tools` returns the gateway's current tools."""

    counts: Counts
    own_tools: Callable[[], _OwnTools]
    _tools: _OwnTools = field(default_factory=dict[str, ToolDefinition])
    _hashes: dict[str, str] = field(default_factory=dict[str, str])

    def record_reply(self, model: str, request: ToolCallRequest, events: Iterable[Event]) -> None:
        """Count the reply to a request that offers tools. `events` are those of `CHOICE_EVENTS`."""
        selection = tool_usage_of(request, fold(events))
        if selection is None:
            return
        labels = {tool.name: self._labels(tool) for tool in selection.offered}
        for one in dict.fromkeys(labels.values()):
            self.counts.add("ferrule_tool_offered", model, *one)
        for pick in selection.attempts:
            for family, applies in _PICK_FAMILIES.items():
                if applies(pick):
                    self.counts.add(family, model, *labels.get(pick.tool, _NO_TOOL))
        if selection.is_unanswered:
            self.counts.add("ferrule_tool_missed", model, *labels.get(selection.required_tool, _NO_TOOL))

    def _labels(self, tool: ToolDefinition) -> tuple[str, str]:
        """The name and hash of one of the gateway's tools. A caller's tool of the same name is not one of them."""
        own_tools = self.own_tools()
        # The catalog replaces its dictionary on refresh, so identity tells whether the hashes are current.
        if own_tools is not self._tools:
            self._tools, self._hashes = own_tools, {}
        if own_tools.get(tool.name) != tool:
            return CALLER, ""
        if tool.name not in self._hashes:
            self._hashes[tool.name] = tool.fingerprint[:SHORT_HASH]
        return tool.name, self._hashes[tool.name]
