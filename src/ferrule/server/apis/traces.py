"""`/v1/traces`: what the gateway did, one row for a conversation however many requests it took.

A principal sees its own traces, an admin those of the tenant, and an approver the conversations of the tenant in
which a call waits for approval. Others are reported as missing. Only an admin sees what an engine said; callers see
what they were sent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.errors import DefinitionError, NotFoundError
from ferrule.run.ledger.title import title_of_messages
from ferrule.run.ledger.trace import PromptPrefix, Trace, TracedRequest, TraceQuery, TraceStatus, TraceSummary
from ferrule.server.apis.conversations import MAX_LIMIT, may_decide, may_see, render_error
from ferrule.server.apis.query import MAX_TIME, read_limit, read_terms, read_time, reported_cursor
from ferrule.server.gateway import Gateway
from ferrule.server.http import ADMIN, ANY, AnyResponse, Request, Response, Route
from ferrule.server.observability.trace_recorder import STALE_SECONDS

_DEFAULT_LIMIT = 20
STATUSES: Mapping[str, TraceStatus] = {one.value: one for one in TraceStatus}


def routes(gateway: Gateway) -> list[Route]:
    async def list_traces(request: Request) -> AnyResponse:
        limit = read_limit(request, _DEFAULT_LIMIT, MAX_LIMIT)
        with reported_cursor():
            traces = await gateway.ledger.traces_of(request.principal.tenant, _query(request, limit + 1))
        data = [_summary_view(one) for one in traces[:limit]]
        return Response.json({"object": "list", "data": data, "has_more": len(traces) > limit})

    async def get_trace(request: Request) -> AnyResponse:
        trace = await _find(gateway, request, request.params["id"])
        return Response.json(_trace_view(trace, is_admin=ADMIN in request.rights))

    return [
        Route("GET", "/v1/traces", list_traces, ANY, render_error),
        Route("GET", "/v1/traces/{id}", get_trace, ANY, render_error),
    ]


async def _find(gateway: Gateway, request: Request, id: str) -> Trace:
    """Return a trace, or a conversation for which no request was recorded as a trace without requests."""
    if "\x00" not in id:
        tenant, stale_before = request.principal.tenant, time.time() - STALE_SECONDS
        trace = await gateway.ledger.trace(id, tenant, stale_before=stale_before)
        if trace is not None and may_see(request, trace.summary):
            return trace
        record = await gateway.ledger.load(id)
        if record is not None and (may_see(request, record) or await may_decide(gateway, request, record)):
            # Who decides on a call sees its conversation, and not what else its client asked.
            audit = await gateway.ledger.audit(id)
            times = (audit[0].at, audit[-1].at) if audit else (0.0, 0.0)
            summary = TraceSummary(
                id=id,
                tenant=tenant,
                principal=record.principal,
                began_at=times[0],
                changed_at=times[1],
                status=None,
                title=title_of_messages(cast("dict[str, Any]", record.state or {}).get("messages", ())),
            )
            return Trace(summary, ())
    raise NotFoundError("there is no such trace", hint="See /v1/traces.")


def _query(request: Request, limit: int) -> TraceQuery:
    terms = read_terms(request, "text", "tool", "after", "principal", "status")
    status = terms["status"]
    if status and status not in STATUSES:
        raise DefinitionError(f"status: {status!r:.40} is not a status", hint=f"Write one of {', '.join(STATUSES)}.")
    return TraceQuery(
        principal=terms["principal"] if ADMIN in request.rights else request.principal.name,
        text=terms["text"],
        tool=terms["tool"],
        status=STATUSES.get(status),
        since=read_time(request, "since", 0.0),
        until=read_time(request, "until", MAX_TIME),
        after=terms["after"],
        limit=limit,
        stale_before=time.time() - STALE_SECONDS,
    )


def _summary_view(summary: TraceSummary) -> dict[str, Any]:
    return {
        "object": "trace",
        "id": summary.id,
        "principal": summary.principal,
        "title": summary.title,
        "status": summary.status.value if summary.status else "",
        "error": summary.error,
        "model": summary.model,
        "request_count": summary.request_count,
        "error_count": summary.error_count,
        "prompt_tokens": summary.prompt_tokens,
        "completion_tokens": summary.completion_tokens,
        "cost": summary.cost,
        "began_at": summary.began_at,
        "changed_at": summary.changed_at,
    }


def _trace_view(trace: Trace, *, is_admin: bool) -> dict[str, Any]:
    conversations = dict.fromkeys(one.conversation for one in trace.requests if one.conversation)
    return {
        **_summary_view(trace.summary),
        "conversations": list(conversations) if trace.requests else [trace.summary.id],
        "requests": [_request_view(one, is_admin=is_admin) for one in trace.requests],
    }


def _request_view(request: TracedRequest, *, is_admin: bool) -> dict[str, Any]:
    error = request.error
    return {
        "id": request.id,
        "request_id": request.request_id,
        "at": request.at,
        "seconds": request.seconds,
        "api": request.api,
        "model": request.model,
        "status": request.status.value,
        "finish": request.finish,
        "error": {
            "code": error.code,
            "status": error.status,
            "message": error.detail if is_admin and error.detail else error.message,
        }
        if error
        else None,
        "prompt_tokens": request.prompt_tokens,
        "cached_tokens": request.cached_tokens,
        "prompt_prefix": _prefix_view(request.prompt_prefix),
        "completion_tokens": request.completion_tokens,
        "cost": request.cost,
        "tools": list(request.tools),
        "conversation": request.conversation,
        "messages": loads(request.messages_text),
    }


def _prefix_view(prefix: PromptPrefix | None) -> dict[str, Any] | None:
    if prefix is None:
        return None
    return {
        "changed_by": prefix.by.value,
        "changed": prefix.what,
        "kept_bytes": prefix.kept_bytes,
        "previous_bytes": prefix.previous_bytes,
    }
