"""`/v1/conversations`: the recorded messages, calls and approvals, and whether the audit log is intact.

A principal sees its own conversations, an admin those of the tenant, and an approver those of the tenant in which a
call waits for approval. Others are reported as missing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from ferrule.core.message import ChatMessage, messages_from_json
from ferrule.dialects.openai_error import error_body
from ferrule.errors import DefinitionError, FerruleError, NotFoundError
from ferrule.run.ledger.ledger import ApprovalState, AuditRecord, Breach, CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.search import ConversationQuery, ConversationSummary
from ferrule.run.ledger.title import title_of_messages
from ferrule.run.ledger.trace import TraceSummary
from ferrule.run.machine import outcome_as_dict
from ferrule.run.timeline import timeline_of
from ferrule.run.timeline_entry import title_of
from ferrule.server.answer.result import RUNNING, WAITING, result_of
from ferrule.server.apis.query import read_limit, read_terms, reported_cursor
from ferrule.server.gateway import Gateway
from ferrule.server.http import ADMIN, ANY, AnyResponse, Request, Response, Route
from ferrule.server.tools.approval_context import approval_view

MAX_LIMIT = 100
_DEFAULT_LIMIT = 20


def routes(gateway: Gateway) -> list[Route]:
    async def list_conversations(request: Request) -> AnyResponse:
        now = time.time()
        limit = read_limit(request, _DEFAULT_LIMIT, MAX_LIMIT)
        with reported_cursor():
            lines = await gateway.ledger.conversations_of(request.principal.tenant, _search(request, limit + 1))
        data = [_summary_view(line, now) for line in lines[:limit]]
        return Response.json({"object": "list", "data": data, "has_more": len(lines) > limit})

    async def get_conversation(request: Request) -> AnyResponse:
        id = request.params["id"]
        record = None if "\x00" in id else await gateway.ledger.load(id)
        if record is None or not (may_see(request, record) or await may_decide(gateway, request, record)):
            raise NotFoundError("there is no such conversation", hint="See /v1/conversations.")
        return Response.json(await _conversation_view(gateway, record, time.time()))

    async def get_result(request: Request) -> AnyResponse:
        id = request.params["id"]
        record = None if "\x00" in id else await gateway.ledger.load(id)
        if record is None or not may_see(request, record):
            raise NotFoundError("there is no such conversation", hint="See /v1/conversations.")
        status, fields = await result_of(gateway, record, time.time())
        view = {"object": "conversation.result", "id": record.id, "status": status, **fields}
        return Response.json(view, 202 if status in (WAITING, RUNNING) else 200)

    return [
        Route("GET", "/v1/conversations", list_conversations, ANY, render_error),
        Route("GET", "/v1/conversations/{id}", get_conversation, ANY, render_error),
        Route("GET", "/v1/conversations/{id}/result", get_result, ANY, render_error),
    ]


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


def _search(request: Request, limit: int) -> ConversationQuery:
    params = read_terms(request, "text", "tool", "after", "principal")
    principal = params["principal"] if ADMIN in request.rights else request.principal.name
    return ConversationQuery(
        principal=principal, text=params["text"], tool=params["tool"], after=params["after"], limit=limit
    )


def may_see(request: Request, record: ConversationRecord | TraceSummary) -> bool:
    """Whether it belongs to the principal, or to the tenant of an admin."""
    is_own = record.principal == request.principal.name
    return record.tenant == request.principal.tenant and (is_own or ADMIN in request.rights)


async def may_decide(gateway: Gateway, request: Request, record: ConversationRecord) -> bool:
    """Whether the conversation has a call on which this principal may decide now."""
    if "approve" not in request.rights or record.tenant != request.principal.tenant:
        return False
    now = time.time()
    return any(
        one.state is ApprovalState.PENDING and one.expires_at > now
        for one in await gateway.ledger.approvals_in(record.id)
    )


def _summary_view(line: ConversationSummary, now: float) -> dict[str, Any]:
    return {
        "object": "conversation",
        "id": line.id,
        "principal": line.principal,
        "opened_at": line.opened_at,
        "changed_at": line.changed_at,
        "version": line.version,
        "is_held": line.lease_until > now,
        "title": line.title,
    }


async def _conversation_view(gateway: Gateway, record: ConversationRecord, now: float) -> dict[str, Any]:
    ledger = gateway.ledger
    audit = await ledger.audit(record.id)
    breach = await ledger.verify(record.id)
    state = cast("dict[str, Any]", record.state or {})
    loop = cast("dict[str, Any]", state.get("loop") or {})
    messages = [*state.get("messages", ()), *loop.get("added", ())]
    calls, approvals = await ledger.calls(record.id), await ledger.approvals_in(record.id)
    head = ConversationSummary(
        *(record.id, record.tenant, record.principal, record.version, record.held_until),
        *(audit[0].at if audit else 0.0, audit[-1].at if audit else 0.0),
        title_of_messages(state.get("messages", ())) or title_of(_first_tool(audit, calls)),
    )
    entries = timeline_of(audit, _read_messages(messages), calls, approvals, now=now)
    return {
        **_summary_view(head, now),
        "within": state.get("within", ""),
        "messages": messages,
        "is_unfinished": bool(loop),
        "calls": [_call_view(call) for call in calls],
        "approvals": [approval_view(one, now) for one in approvals],
        "timeline": [moment.as_dict() for moment in entries],
        "audit": {"rows": [_audit_view(row) for row in audit], "chain": _chain_view(breach)},
    }


def _read_messages(messages: list[dict[str, Any]]) -> tuple[ChatMessage, ...]:
    """Read messages for the timeline; none if the record is damaged. The rest of it is still shown."""
    try:
        return messages_from_json(messages)
    except DefinitionError:
        return ()


def _first_tool(audit: Sequence[AuditRecord], calls: Sequence[CallRecord]) -> str:
    tools = {call.id: call.tool for call in calls}
    proposed = (row.call_id for row in audit if row.kind == CallState.PROPOSED.value)
    return next((tools[id] for id in proposed if id in tools), "")


def _call_view(call: CallRecord) -> dict[str, Any]:
    return {
        "id": call.id,
        "tool": call.tool,
        "fingerprint": call.tool_fingerprint,
        "arguments": call.arguments.decode("utf-8", "backslashreplace"),
        "arguments_sha256": call.arguments_sha256,
        "side_effects": call.side_effects,
        "needs_approval": call.needs_approval,
        "state": call.state.value,
        "outcome": outcome_as_dict(call.outcome) if call.outcome else None,
    }


def _audit_view(row: AuditRecord) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "at": row.at,
        "kind": row.kind,
        "call_id": row.call_id,
        "approval": row.approval,
        "by": row.by,
        "epoch": row.epoch,
        "detail": row.detail,
        "previous": row.previous,
        "hash": row.hash,
    }


def _chain_view(breach: Breach | None) -> dict[str, Any]:
    return {"holds": breach is None, "breach": "" if breach is None else str(breach)}
