"""The transactions on tool usage: recording that of one reply, and building a report. Independent of the database.

A set of offered tools is stored once, by the fingerprints in it, and so are the name and description of each
definition. Each reply adds one row, and one for each call. The outcome of a call is in the table of calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from ferrule.core.json_text import digest, loads
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_use import ToolUse
from ferrule.run.ledger.claim import encode_json
from ferrule.run.ledger.ledger import CallState
from ferrule.run.ledger.transaction import Row, Transaction, execute
from ferrule.run.ledger.transition import Transition
from ferrule.run.ledger.writes import Kind
from ferrule.run.reply_record import ReplyRecord
from ferrule.run.tool_usage import (
    PICKED,
    AttemptStatus,
    ToolUsage,
    UnknownToolName,
    UsageCounts,
    UsageQuery,
    UsageReport,
    UsageRow,
)

MAX_UNKNOWN_NAMES = 100
MAX_RECENT_REPLIES = 5_000
"""Of how many replies the usage by week is read. A process reads it every few minutes."""
MAX_RECENT_OFFERS = 200
"""Of how many different sets of tools, by week."""
MAX_OFFERED_TOOLS = 50_000
"""How many tools the sets that these replies offered have together. The set that goes beyond it is read whole."""
MAX_TIMED_CONVERSATIONS = 2_000
"""Of how many conversations the times of calls are read."""
MAX_TIMED_ROWS = 20_000
"""How many rows of audit logs the times of calls are read from; twice as many if one conversation has most of them."""
_WEEK_SECONDS = 7 * 86_400.0
_FAILED = frozenset({CallState.FAILED.value, CallState.UNKNOWN.value})
_RowKey = tuple[str, str]


def write_usage(transition: Transition, reply: ReplyRecord, usage: ToolUsage, offer: str) -> None:
    """Record the tool usage of a reply. If a model is asked again after a crash, the new usage replaces the old one."""
    fingerprints = {tool.name: tool.fingerprint for tool in usage.offered}
    record, where = transition.record, (reply.conversation, reply.place)
    demanded = fingerprints.get(usage.required_tool, "")
    about = (encode_json(reply.model), offer, demanded, int(usage.is_required), int(usage.is_unanswered))
    transition.write(Kind.SELECTION, *where, record.tenant, record.principal, transition.now, *about)
    transition.write(Kind.PICK_REMOVAL, *where, len(usage.attempts))
    for number, attempt in enumerate(usage.attempts):
        call_id = "" if attempt.number is None else f"{reply.place}.{attempt.number}"
        columns = (fingerprints.get(attempt.tool, ""), call_id, attempt.status.value, encode_json(attempt.name))
        transition.write(Kind.PICK, *where, number, *columns, int(attempt.is_retried), int(attempt.is_repeated))


def find_usage(query: UsageQuery) -> Transaction[UsageReport]:
    where = "_everywhere" if query.tenant is None else ""
    anyone = int(query.principal is None)
    whose = (query.tenant or "", anyone, query.principal or "", float(query.since))
    offers = (yield from execute(f"offers_counted{where}", *whose, query.tool, query.tool)).rows
    picks = (yield from execute(f"picks_counted{where}", *whose)).rows
    demands = (yield from execute(f"demands_counted{where}", *whose)).rows
    misnamed = (yield from execute(f"misnamings_counted{where}", *whose, MAX_UNKNOWN_NAMES)).rows
    counts = _count(offers, picks, demands)
    offers_by_key = {(row[0], row[1]): row for row in offers}
    rows = [
        _row(key, offers_by_key.get(key), row_counts)
        for key, row_counts in counts.items()
        # With a tool in the query, rows of other tools and rows of no tool are left out.
        if key in offers_by_key or not (query.tool or key[1])
    ]
    names = {fingerprint: row[2] for (_, fingerprint), row in offers_by_key.items()}
    # Summed by tool instead of by definition: an unknown name has nothing to do with the description.
    unknown_names: dict[tuple[str, str, str], int] = {}
    for model, fingerprint, wrote, count in misnamed:
        if fingerprint in names or not (query.tool or fingerprint):
            key = (_text(model), _text(wrote), names.get(fingerprint, ""))
            unknown_names[key] = unknown_names.get(key, 0) + int(count)
    most = sorted(unknown_names.items(), key=lambda one: (-one[1], one[0]))
    return UsageReport(tuple(sorted(rows, key=_by_use)), tuple(UnknownToolName(*key, count) for key, count in most))


def find_uses(tenant: str, since: float) -> Transaction[tuple[ToolUse, ...]]:
    """Return how often models loaded and called each tool, by week. Calls that were no use count as failed."""
    whose = (tenant, float(since), MAX_RECENT_REPLIES, MAX_RECENT_OFFERS, MAX_OFFERED_TOOLS)
    loads = (yield from execute("loads_by_week", *whose)).rows
    picks = (yield from execute("picks_by_week", *whose)).rows
    loaded = {(tool, float(week)): int(count) for tool, week, count in loads}
    counts: dict[tuple[str, float], UsageCounts] = {}
    for tool, week, fate, state, count in picks:
        key = (tool, float(week))
        more = _attempt_counts(AttemptStatus(fate), state, int(count), 0, 0)
        counts[key] = counts.get(key, UsageCounts()) + more
    return tuple(
        ToolUse(
            *(tool, week * _WEEK_SECONDS, loaded.get((tool, week), 0), one.picked + one.refused),
            failed=one.failed + one.denied + one.refused,
        )
        for tool, week in sorted({*loaded, *counts})
        for one in (counts.get((tool, week), UsageCounts()),)
    )


def find_call_seconds(query: UsageQuery) -> Transaction[tuple[tuple[str, float], ...]]:
    """Return how long calls of the newest conversations took, each with its tool."""
    where = "_everywhere" if query.tenant is None else ""
    whose = (query.tenant or "", int(query.principal is None), query.principal or "", float(query.since))
    limits = (MAX_TIMED_CONVERSATIONS, MAX_TIMED_ROWS, MAX_TIMED_ROWS)
    rows = (yield from execute(f"call_seconds{where}", float(query.since), *whose, *limits)).rows
    return tuple((tool, max(float(took), 0.0)) for tool, took in rows if query.tool in ("", tool))


def merge_reports(reports: Iterable[UsageReport]) -> UsageReport:
    """Return one report over several databases."""
    rows: dict[tuple[str, str, str], UsageRow] = {}
    names: dict[tuple[str, str, str], int] = {}
    for report in reports:
        for row in report.rows:
            key = (row.model, row.tool, row.fingerprint)
            rows[key] = _merge_rows(rows[key], row) if key in rows else row
        for one in report.unknown_names:
            name = (one.model, one.wrote, one.tool)
            names[name] = names.get(name, 0) + one.count
    most = sorted(names.items(), key=lambda one: (-one[1], one[0]))[:MAX_UNKNOWN_NAMES]
    unknown_names = tuple(UnknownToolName(*name, count) for name, count in most)
    return UsageReport(tuple(sorted(rows.values(), key=_by_use)), unknown_names)


def _merge_rows(one: UsageRow, other: UsageRow) -> UsageRow:
    firsts = [row.first_at for row in (one, other) if row.first_at is not None]
    lasts = [row.last_at for row in (one, other) if row.last_at is not None]
    counts = one.counts + other.counts
    return replace(one, first_at=min(firsts, default=None), last_at=max(lasts, default=None), counts=counts)


def offer_id(usage: ToolUsage | None) -> str:
    """Return the id of a set of tools; empty without one."""
    return "" if usage is None else digest(sorted({tool.name: tool.fingerprint for tool in usage.offered}.values()))


def store_offer(offer: str, tools: tuple[ToolDefinition, ...]) -> Transaction[None]:
    """Store a set of tools, unless it is stored. It is named by its content, so it may be stored at any time."""
    if not (yield from execute("has_offer", offer)).rows:
        # Always in the same order, so that two writers of the same rows cannot deadlock.
        for tool in sorted({tool.name: tool for tool in tools}.values(), key=lambda one: one.fingerprint):
            yield from execute("add_definition", tool.fingerprint, tool.name, encode_json(tool.description))
            yield from execute("add_offer", offer, tool.fingerprint)


def _count(offers: list[Row], picks: list[Row], demands: list[Row]) -> dict[_RowKey, UsageCounts]:
    """Return the counts by model and definition, both as they are stored."""
    counts: dict[_RowKey, UsageCounts] = {}

    def add(model: str, fingerprint: str, more: UsageCounts) -> None:
        counts[model, fingerprint] = counts.get((model, fingerprint), UsageCounts()) + more

    for model, fingerprint, _, _, count, _, _ in offers:
        add(model, fingerprint, UsageCounts(offered=int(count)))
    for model, fingerprint, fate, state, count, retried, repeated in picks:
        add(model, fingerprint, _attempt_counts(AttemptStatus(fate), state, int(count), int(retried), int(repeated)))
    for model, fingerprint, count, unanswered in demands:
        demanded = int(count) if fingerprint else 0
        if demanded or unanswered:
            add(model, fingerprint, UsageCounts(demanded=demanded, missed=int(unanswered)))
    return counts


def _attempt_counts(status: AttemptStatus, state: str, count: int, retried: int, repeated: int) -> UsageCounts:
    """Return the counts for a group of calls with the same status and final state."""
    is_picked = status in PICKED
    return UsageCounts(
        picked=count * is_picked,
        repaired=count * (status is AttemptStatus.REPAIRED),
        refused=count * (status is AttemptStatus.REFUSED),
        cut_off=count * (status is AttemptStatus.CUT_OFF),
        missed=count * (status is AttemptStatus.NOT_OFFERED),
        failed=count * (is_picked and state in _FAILED),
        denied=count * (is_picked and state == CallState.DENIED.value),
        retried=retried,
        repeated=repeated,
    )


def _row(key: _RowKey, offer: Row | None, counts: UsageCounts) -> UsageRow:
    model, fingerprint = key
    if offer is None:
        return UsageRow(_text(model), "", fingerprint, "", None, None, counts)
    _, _, tool, description, _, first, last = offer
    return UsageRow(_text(model), tool, fingerprint, _text(description), first, last, counts)


def _by_use(row: UsageRow) -> tuple[int, int, str, str, float]:
    return -row.counts.picked, -row.counts.offered, row.tool, row.model, row.first_at or 0.0


def _text(stored: str) -> str:
    return cast("str", loads(stored))
