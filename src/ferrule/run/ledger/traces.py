"""The transactions on traces: record requests, list traces, read one, forget old ones. Independent of the database.

A request belongs to the trace of its conversation in the ledger, if it has one. If not, it belongs to the latest
request of the same principal whose history, with the reply, is a beginning of its own history. A client that sends its
whole history with every request needs no id for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from ferrule.core.json_text import dumps, loads
from ferrule.errors import LedgerError
from ferrule.run.history_key import TRY
from ferrule.run.ledger.queries import Range, find_conversations, like_pattern, search_newest
from ferrule.run.ledger.search import ConversationQuery, ConversationSummary
from ferrule.run.ledger.tables import MAX_EARLIER_KEYS
from ferrule.run.ledger.trace import (
    ChangedBy,
    PromptPrefix,
    RequestError,
    Trace,
    TracedRequest,
    TraceQuery,
    TraceStatus,
    TraceSummary,
)
from ferrule.run.ledger.transaction import Row, Transaction, execute

_TRY_SECONDS = 600.0
"""How long after a request that failed an identical one counts as the next try. Later it is a new conversation."""
_BATCH = 1_000
"""How many traces are deleted in one transaction."""


def record_requests(requests: Sequence[TracedRequest]) -> Transaction[None]:
    """Record requests, each when it begins, when it ends, or both at once. One that has ended is not changed again."""
    for request in requests:
        recorded_status, trace = yield from _find_trace(request)
        if recorded_status not in (None, TraceStatus.RUNNING.value):
            continue
        yield from execute("set_trace", *_trace_row(trace, request, is_new=recorded_status is None))
        yield from execute("set_traced_request", *_request_row(trace, request))
        for tool in request.tools:
            yield from execute("add_trace_tool", trace, tool)


def touch_requests(ids: Sequence[str], now: float) -> Transaction[None]:
    """Note that these requests still run."""
    for id in ids:
        yield from execute("touch_trace", float(now), id)


def find_traces(tenant: str, query: TraceQuery, words: str | None = None) -> Transaction[tuple[TraceSummary, ...]]:
    """Return traces, and conversations in the ledger for which no request was recorded, newest first.

    `words` is the text of the query for the index of words; None without one.
    """
    part = Range(since=query.since, until=query.until)
    if query.after:
        rows = (yield from execute("trace_began_at", query.after, tenant)).rows
        rows = rows or (yield from execute("opened_at", query.after, tenant)).rows
        if not rows:
            raise LedgerError("the cursor names no trace", code="bad_cursor", hint="Start without a cursor.")
        part = replace(part, cursor=(float(rows[0][0]), query.after))
    summaries = [_summary(row) for row in (yield from _find_rows(tenant, query, words, part))]
    if query.status is None:
        if len(summaries) == query.limit:
            # A conversation that is older than the last of these would not be in the page.
            part = replace(part, floor=(summaries[-1].began_at, summaries[-1].id))
        conversations = ConversationQuery(
            principal=query.principal, text=query.text, tool=query.tool, limit=query.limit, is_untraced=True
        )
        summaries += map(_untraced, (yield from find_conversations(tenant, conversations, words, part)))
    summaries.sort(key=lambda one: (one.began_at, one.id), reverse=True)
    return tuple(summaries[: query.limit])


def _find_rows(tenant: str, query: TraceQuery, words: str | None, part: Range) -> Transaction[Sequence[Row]]:
    suffix = "_by" if query.principal else ""
    where = (tenant, query.principal) if query.principal else (tenant,)
    status = query.status or ""
    first = (float(query.stale_before), *where, *part.cursor)
    rest = (query.tool, query.tool, float(query.since), float(query.until), status, status, query.limit)
    if not query.text:
        return (yield from execute(f"traces_of{suffix}", *first, *rest)).rows
    if words is None:
        patterns = [like_pattern(query.text)] * 4
        return (yield from execute(f"traces_of{suffix}_scanned", *first, *patterns, *rest)).rows
    if not words:
        return ()
    walk = (*where, *part.cursor)
    return (
        yield from search_newest(
            query.limit,
            lambda count: execute(f"trace_search_recent{suffix}", words, first[0], *walk, count, *first[1:], *rest),
            lambda count: execute(f"has_older_traces{suffix}", *walk, count),
            lambda: execute(f"trace_search_all{suffix}", words, *first, *rest),
        )
    )


def find_trace(id: str, tenant: str, stale_before: float) -> Transaction[Trace | None]:
    """Return a trace, by its own id or that of a conversation in it."""
    for name in ("trace", "trace_of_conversation"):
        rows = (yield from execute(name, float(stale_before), id, tenant)).rows
        if rows:
            summary = _summary(rows[0])
            requests = (yield from execute("traced_requests", summary.id)).rows
            is_stale = summary.status is TraceStatus.INTERRUPTED
            return Trace(summary, tuple(_request(row, is_stale=is_stale) for row in requests))
    return None


def forget_traces(before: float) -> Transaction[int]:
    """Delete traces that were not changed since `before`, oldest first. Returns how many, at most a batch."""
    ids = [row[0] for row in (yield from execute("old_traces", float(before), _BATCH)).rows]
    for id in ids:
        for name in ("forget_traced_requests", "forget_trace_tools", "forget_trace"):
            yield from execute(name, id)
    return len(ids)


def _find_trace(request: TracedRequest) -> Transaction[tuple[str | None, str]]:
    """Return the recorded status of a request, None if it is new, and the trace that it belongs to."""
    keys = [*request.earlier_keys, *[""] * MAX_EARLIER_KEYS][:MAX_EARLIER_KEYS]
    owner = (request.tenant, request.principal)
    histories = [(key, request.at - _TRY_SECONDS if key.startswith(TRY) else 0.0, *owner) for key in keys]
    values = (request.id, request.id, request.conversation, request.tenant, *chain.from_iterable(histories))
    ((status, *traces),) = (yield from execute("find_trace", *values)).rows
    own = f"trace_{request.id.removeprefix('request_')}"
    return status, next((trace for trace in traces if trace is not None), own)


def _trace_row(trace: str, request: TracedRequest, *, is_new: bool) -> tuple[object, ...]:
    """Return what a request adds to its trace: once when it begins, and once when it ends."""
    error = request.error.code if request.error else ""
    return (
        *(trace, request.tenant, request.principal, float(request.at), float(request.at + (request.seconds or 0.0))),
        *(request.status.value, request.model, error, request.title, int(is_new), int(bool(request.error))),
        *(request.prompt_tokens, request.completion_tokens, request.cost),
    )


def _request_row(trace: str, request: TracedRequest) -> tuple[object, ...]:
    error = request.error
    return (
        *(request.id, trace, request.tenant, request.principal, float(request.at), request.api, request.request_id),
        *(request.seconds, request.status.value, request.model, request.finish),
        *((error.code, error.status, error.message, error.detail) if error else ("", 0, "", "")),
        *(request.prompt_tokens, request.completion_tokens, request.cost, dumps(list(request.tools))),
        *(request.conversation, request.messages_text, request.history_key),
        *(request.cached_tokens, _prefix_text(request.prompt_prefix)),
    )


def _request(row: Row, *, is_stale: bool) -> TracedRequest:
    id, tenant, principal, at, api, request_id, seconds, status, model, finish, *rest = row
    (
        code,
        http_status,
        message,
        detail,
        prompt_tokens,
        completion_tokens,
        cost,
        tools,
        conversation,
        messages,
        *prompt,
    ) = rest
    cached_tokens, prompt_prefix = prompt
    was_running = status == TraceStatus.RUNNING.value
    return TracedRequest(
        id=id,
        tenant=tenant,
        principal=principal,
        at=at,
        api=api,
        request_id=request_id,
        seconds=seconds,
        status=TraceStatus.INTERRUPTED if was_running and is_stale else TraceStatus(status),
        model=model,
        finish=finish,
        error=RequestError(code=code, status=http_status, message=message, detail=detail) if code else None,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        completion_tokens=completion_tokens,
        cost=cost,
        tools=tuple(map(str, loads(tools))),  # pyright: ignore[reportArgumentType]  # it was written as a list
        conversation=conversation,
        messages_text=messages,
        prompt_prefix=_read_prefix(prompt_prefix),
    )


def _prefix_text(prefix: PromptPrefix | None) -> str:
    return "" if prefix is None else dumps([prefix.by, prefix.what, prefix.kept_bytes, prefix.previous_bytes])


def _read_prefix(text: str) -> PromptPrefix | None:
    if not text:
        return None
    by, what, kept_bytes, previous_bytes = cast("list[Any]", loads(text))
    return PromptPrefix(ChangedBy(by), what, kept_bytes, previous_bytes)


def _summary(row: Row) -> TraceSummary:
    id, tenant, principal, began_at, changed_at, status, model, error, title, *counts = row
    request_count, error_count, prompt_tokens, completion_tokens, cost = counts
    return TraceSummary(
        id=id,
        tenant=tenant,
        principal=principal,
        began_at=began_at,
        changed_at=changed_at,
        status=TraceStatus(status),
        model=model,
        error=error,
        title=title,
        request_count=request_count,
        error_count=error_count,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost=cost,
    )


def _untraced(one: ConversationSummary) -> TraceSummary:
    return TraceSummary(
        id=one.id,
        tenant=one.tenant,
        principal=one.principal,
        began_at=one.opened_at,
        changed_at=one.changed_at,
        status=None,
        title=one.title,
    )
