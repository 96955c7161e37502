"""Counts: the metrics of a gateway as plain numbers. Knows no output format and does no IO.

A count is a number in a dictionary; the page for Prometheus is rendered on request. Label values come from the
configuration and from our own tables, never from a request. A family with too many series puts the rest under "other".
"""

from __future__ import annotations

import json
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, cast

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Finish
from ferrule.core.tool import ToolDefinition
from ferrule.run.tool_usage import PICKED, SHORT_HASH, WRONG, AttemptStatus, CallAttempt, ToolUsage
from ferrule.server.observability.answer_record import CALLER

OTHER = "other"
MAX_SERIES = 500

_TOOL = ("model", "tool", "definition")
_SHORT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)

# The buckets that OpenTelemetry's conventions for GenAI and MCP name.
_OPERATION = tuple(0.01 * 2**power for power in range(14))
_TOKENS = tuple(float(4**power) for power in range(14))
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_MCP = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_GEN_AI = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family: a counter, a gauge (`is_gauge`), or a histogram (`bounds`)."""

    help_text: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    is_gauge: bool = False


FAMILIES: Mapping[str, Family] = {
    "ferrule_requests": Family("Requests, by route, model and outcome.", ("api", "model", "outcome")),
    "ferrule_first_event_seconds": Family("Seconds until the first event of an answer.", ("model",), _SHORT),
    "ferrule_answer_seconds": Family("Seconds for a whole answer.", ("model",), _LONG),
    "ferrule_events": Family("Events streamed in answers.", ("model",)),
    "ferrule_tokens": Family("Prompt and completion tokens.", ("model", "kind")),
    "ferrule_cached_tokens": Family("Prompt tokens that came from the engine's cache.", ("model",)),
    "ferrule_calls": Family("Tool calls by models, by how their validity was guaranteed.", ("tool", "how", "outcome")),
    "ferrule_repairs": Family("Tool calls whose arguments were repaired.", ("model",)),
    "ferrule_ignored_fields": Family("Requests with a field that is not carried out, by field.", ("field",)),
    "ferrule_tool_offered": Family("Replies by a model that was offered the tool.", _TOOL),
    "ferrule_tool_picked": Family("Calls of the tool that were passed on.", _TOOL),
    "ferrule_tool_wrong": Family("Calls of the tool that were repaired or refused.", _TOOL),
    "ferrule_tool_missed": Family(
        "Calls of a similar name that was not offered, and required calls that were not made.", _TOOL
    ),
    "ferrule_tool_retried": Family("Calls that follow an error of the same tool.", _TOOL),
    "ferrule_tool_repeated": Family("Calls that repeat the arguments of an earlier call.", _TOOL),
    "ferrule_tool_seconds": Family("Seconds that calls of the gateway's own tools took.", ("tool", "outcome"), _LONG),
    "ferrule_tool_threads": Family("Threads in which calls of the gateway's own tools run.", ("tool",), is_gauge=True),
    "ferrule_tool_threads_hung": Family(
        "Threads whose call has passed its deadline and has not returned.", ("tool",), is_gauge=True
    ),
    "ferrule_approvals_asked": Family("Calls that required an approval.", ("tool",)),
    "ferrule_quota_refusals": Family("Requests and calls that were refused because a quota was used up.", ("quota",)),
    "ferrule_quota_store_failures": Family("Times that the shared store of quotas was away."),
    "ferrule_failovers": Family("Requests that moved to another engine before any output.", ("model",)),
    "ferrule_engine_errors": Family("Engine failures.", ("engine", "code")),
    "ferrule_ledger_errors": Family("Ledger errors.", ("code",)),
    "ferrule_ledger_well": Family(
        "Whether each database of the ledger answers, in the order of the list.", ("database",), is_gauge=True
    ),
    "ferrule_ledger_probe_seconds": Family(
        "Seconds in which each database of the ledger answered a read, or did not.", ("database",), is_gauge=True
    ),
    "ferrule_ledger_connections": Family(
        "Connections of the pools to each database: those in use, and the most that there may be.",
        ("database", "state"),
        is_gauge=True,
    ),
    "ferrule_ledger_waiting": Family(
        "Statements that wait for a free connection to each database.", ("database",), is_gauge=True
    ),
    "ferrule_traces_waiting": Family("Requests that the ledger has not recorded in traces yet.", is_gauge=True),
    "ferrule_traces_lost": Family("Requests that are missing in traces, because the ledger did not accept them."),
    "ferrule_unexpected_errors": Family("Unexpected errors; the log has their stack traces."),
    "ferrule_approvals_waiting": Family("Pending approvals.", is_gauge=True),
    "ferrule_engine_well": Family("Workers that consider this engine healthy.", ("engine",), is_gauge=True),
    "ferrule_engine_answers_open": Family("Answers that an engine is generating.", ("engine",), is_gauge=True),
    "ferrule_answers_open": Family("Answers in progress.", is_gauge=True),
    "ferrule_requests_open": Family("Requests and WebSocket connections in progress.", is_gauge=True),
    "ferrule_draining": Family("Workers that are draining.", is_gauge=True),
    "ferrule_workers": Family("Worker processes.", is_gauge=True),
    "gen_ai_client_token_usage": Family(
        "Tokens of each reply of a model, for those that say how many.", (*_GEN_AI, "gen_ai_token_type"), _TOKENS
    ),
    "gen_ai_client_operation_duration_seconds": Family(
        "Seconds for each reply of a model.", (*_GEN_AI, "error_type"), _OPERATION
    ),
    "gen_ai_client_operation_time_to_first_chunk_seconds": Family(
        "Seconds until the first event of each reply of a model.", _GEN_AI, _OPERATION
    ),
    "gen_ai_server_request_duration_seconds": Family(
        "Seconds for a whole answer, with all its replies and tool calls.", (*_GEN_AI, "error_type"), _OPERATION
    ),
    "gen_ai_server_time_to_first_token_seconds": Family(
        "Seconds until the first event of an answer.", _GEN_AI, _FIRST_TOKEN
    ),
    "gen_ai_execute_tool_duration_seconds": Family(
        "Seconds that calls of the gateway's own tools took.", ("gen_ai_tool_name", "error_type"), _OPERATION
    ),
    "mcp_client_operation_duration_seconds": Family(
        "Seconds that calls of tools of MCP servers took.",
        ("mcp_method_name", "gen_ai_tool_name", "error_type"),
        _MCP,
    ),
}

Labels = tuple[str, ...]
TraceIds = tuple[str, str]
"""The IDs of a trace and of a request; either may be empty."""
NO_IDS: TraceIds = ("", "")


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One measured value with the IDs of the trace and of the request that it is from."""

    trace_id: str
    request_id: str
    value: float
    at: float


@dataclass(slots=True)
class Histogram:
    """The data of a histogram: the count per bucket, not cumulative, the sum of all values, and the newest exemplars.

    `exemplars` has at most one for each bucket, by the bucket's index.
    """

    counts: list[int]
    sum: float = 0.0
    exemplars: dict[int, Exemplar] = field(default_factory=dict[int, Exemplar])


@dataclass(slots=True)
class Counts:
    """Metric values by family and label values."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict[str, dict[Labels, float]])
    histograms: dict[str, dict[Labels, Histogram]] = field(default_factory=dict[str, dict[Labels, Histogram]])

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        series = self.values.setdefault(name, {})
        key = _series_key(series, labels)
        series[key] = series.get(key, 0) + by

    def observe(self, name: str, value: float, *labels: str, ids: TraceIds = NO_IDS) -> None:
        """Add a value to a histogram. `ids` are of the trace and the request: with them it becomes an exemplar."""
        series = self.histograms.setdefault(name, {})
        key = _series_key(series, labels)
        bounds = FAMILIES[name].bounds
        if key not in series:
            series[key] = Histogram([0] * (len(bounds) + 1))
        bucket = bisect_left(bounds, value)
        series[key].counts[bucket] += 1
        series[key].sum += value
        if ids != NO_IDS:
            series[key].exemplars[bucket] = Exemplar(*ids, value, time.time())

    def merge(self, other: Counts) -> None:
        """Add the numbers of another instance. Gauges are added too: the total over several processes is their sum."""
        for name, values in other.values.items():
            for labels, value in values.items():
                self.add(name, *labels, by=value)
        for name, histograms in other.histograms.items():
            series = self.histograms.setdefault(name, {})
            for labels, histogram in histograms.items():
                key = _series_key(series, labels)
                existing = series.get(key) or Histogram([0] * len(histogram.counts))
                counts = [one + two for one, two in zip(existing.counts, histogram.counts, strict=True)]
                exemplars = {**existing.exemplars}
                for bucket, exemplar in histogram.exemplars.items():
                    if bucket not in exemplars or exemplars[bucket].at < exemplar.at:
                        exemplars[bucket] = exemplar
                series[key] = Histogram(counts, existing.sum + histogram.sum, exemplars)

    def without_gauges(self) -> Counts:
        """A copy without gauges, from which another process can continue counting."""
        return Counts(
            {name: series for name, series in self.values.items() if not FAMILIES[name].is_gauge}, self.histograms
        )

    def as_json(self) -> dict[str, Any]:
        values = {name: [[*labels, value] for labels, value in series.items()] for name, series in self.values.items()}
        histograms = {
            name: [[*labels, [*histogram.counts, histogram.sum]] for labels, histogram in series.items()]
            for name, series in self.histograms.items()
        }
        exemplars = {
            name: [
                [*labels, [[bucket, *astuple(one)] for bucket, one in histogram.exemplars.items()]]
                for labels, histogram in series.items()
                if histogram.exemplars
            ]
            for name, series in self.histograms.items()
        }
        return {"values": values, "histograms": histograms, "exemplars": exemplars}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Counts:
        """Read what `as_json` returned. Families that this version does not know are ignored."""
        counts = Counts()
        for name, rows in cast("Mapping[str, list[list[Any]]]", data["values"]).items():
            if name in FAMILIES:
                counts.values[name] = {tuple(row[:-1]): row[-1] for row in rows}
        for name, rows in cast("Mapping[str, list[list[Any]]]", data["histograms"]).items():
            if name in FAMILIES:
                counts.histograms[name] = {tuple(row[:-1]): Histogram(row[-1][:-1], row[-1][-1]) for row in rows}
        for name, rows in cast("Mapping[str, list[list[Any]]]", data.get("exemplars", {})).items():
            for *labels, exemplars in rows:
                histogram = counts.histograms.get(name, {}).get(tuple(labels))
                if histogram is not None:
                    histogram.exemplars = {bucket: Exemplar(*values) for bucket, *values in exemplars}
        return counts


def _series_key(series: Mapping[Labels, object], labels: Labels) -> Labels:
    """The labels, or those of the "other" series if the family is full."""
    if labels in series or len(series) < MAX_SERIES:
        return labels
    return (OTHER,) * len(labels)


# Count which tools models call, for /metrics. The terms are those of `run.tool_usage`.
#
# The gateway's own tools are counted per definition. All tools of callers share one label, because clients choose
# their names and there is no bound on them. The outcome of calls is counted elsewhere, in `ferrule_tool_seconds`.

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


# Share counts between workers: each writes its own file, and the worker that is scraped adds those of the others.
#
# There is one file per worker number and not per process: a restarted worker continues from the file of the one that
# died, so that no counter ever decreases. Prometheus would read a decrease as a reset and count everything twice.
# What a killed worker counted after its last write is lost: at most a second, and nothing that was ever shown.

WRITE_INTERVAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SharedCounts:
    """The shared folder, seen from one worker."""

    folder: Path
    worker: int

    def previous_counts(self) -> Counts:
        """The counts of the previous process with this worker number, without its gauges."""
        return _read(self._file(self.worker)).without_gauges()

    def write(self, counts: Counts) -> None:
        # Written aside and renamed, so that no reader sees a partial file.
        temporary = self._file(self.worker).with_suffix(f".{os.getpid()}.new")
        temporary.write_text(json.dumps(counts.as_json()), encoding="utf-8")
        temporary.replace(self._file(self.worker))

    def others(self) -> Iterator[Counts]:
        for file in self.folder.glob("*.counts"):
            if file != self._file(self.worker):
                yield _read(file)

    def _file(self, worker: int) -> Path:
        return self.folder / f"{worker}.counts"


def _read(file: Path) -> Counts:
    try:
        return Counts.from_json(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Counts()
