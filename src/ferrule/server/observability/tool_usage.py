"""Count which tools models call, for /metrics. The terms are those of `run.tool_usage`.

The gateway's own tools are counted per definition. All tools of callers share one label, because clients choose their
names and there is no bound on them. The outcome of calls is counted elsewhere, in `ferrule_tool_seconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Finish
from ferrule.core.tool import ToolDefinition
from ferrule.run.tool_usage import PICKED, SHORT_HASH, WRONG, AttemptStatus, CallAttempt, ToolUsage
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

    def record_usage(self, model: str, usage: ToolUsage) -> None:
        """Count the tool usage of one reply."""
        labels = {tool.name: self._labels(tool) for tool in usage.offered}
        for one in dict.fromkeys(labels.values()):
            self.counts.add("ferrule_tool_offered", model, *one)
        for pick in usage.attempts:
            for family, applies in _PICK_FAMILIES.items():
                if applies(pick):
                    self.counts.add(family, model, *labels.get(pick.tool, _NO_TOOL))
        if usage.is_unanswered:
            self.counts.add("ferrule_tool_missed", model, *labels.get(usage.required_tool, _NO_TOOL))

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
