"""Which tools models pick, as counts for /metrics. The words are those of `run.tool_usage`.

Of the gateway's own tools each definition is counted; all that callers bring are one, since their names are their own
and without end. What became of a call after it was picked is in the counts of tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Event, Finish
from ferrule.core.reply import fold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.run.tool_usage import PICKED, SHORT_HASH, WRONG, Fate, Pick, selection_of
from ferrule.server.observability.answer_record import CALLER
from ferrule.server.observability.metrics import Counts

CHOOSING: frozenset[type] = frozenset({CallStart, ArgumentsDelta, CallEnd, Finish})
"""The events that say what was chosen: few beside those of text."""
_Own = Mapping[str, ToolDefinition]
_NOBODYS = ("", "")
_JUDGED: Mapping[str, Callable[[Pick], bool]] = {
    "ferrule_tool_picked": lambda pick: pick.fate in PICKED,
    "ferrule_tool_wrong": lambda pick: pick.fate in WRONG,
    "ferrule_tool_retried": lambda pick: pick.is_retried,
    "ferrule_tool_repeated": lambda pick: pick.is_repeated,
    "ferrule_tool_missed": lambda pick: pick.fate is Fate.NOT_OFFERED,
}


@dataclass(slots=True)
class Selections:
    """`own` gives the gateway's tools as they are now."""

    counts: Counts
    own: Callable[[], _Own]
    _tools: _Own = field(default_factory=dict[str, ToolDefinition])
    _hashes: dict[str, str] = field(default_factory=dict[str, str])

    def replied(self, model: str, request: ToolCallRequest, events: Iterable[Event]) -> None:
        """A model has answered a request that offers tools, and these of its events say what it chose."""
        selection = selection_of(request, fold(events))
        if selection is None:
            return
        labels = {tool.name: self._labels(tool) for tool in selection.offered}
        for one in dict.fromkeys(labels.values()):
            self.counts.add("ferrule_tool_offered", model, *one)
        for pick in selection.picks:
            for family, applies in _JUDGED.items():
                if applies(pick):
                    self.counts.add(family, model, *labels.get(pick.tool, _NOBODYS))
        if selection.is_unanswered:
            self.counts.add("ferrule_tool_missed", model, *labels.get(selection.demanded, _NOBODYS))

    def _labels(self, tool: ToolDefinition) -> tuple[str, str]:
        """The name and the hash of one of our own; a caller's tool of the same name is not it."""
        own = self.own()
        if own is not self._tools:
            self._tools, self._hashes = own, {}
        if own.get(tool.name) != tool:
            return CALLER, ""
        if tool.name not in self._hashes:
            self._hashes[tool.name] = tool.fingerprint[:SHORT_HASH]
        return tool.name, self._hashes[tool.name]
