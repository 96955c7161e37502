"""`/v1/conversations`: what was said and done, and whether the record of it still stands as it was written.

A principal sees his own, an admin his tenant's. What is not there and what is another's look the same.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from ferrule.core.message import ChatMessage
from ferrule.core.message_json import messages_from_json
from ferrule.dialects.openai_error import error_body
from ferrule.errors import DefinitionError, FerruleError, LedgerError, NotFoundError
from ferrule.run.ledger.ledger import AuditRecord, Breach, CallRecord, CallState, ConversationRecord
from ferrule.run.ledger.search import ConversationLine, Search
from ferrule.run.ledger.title import title_by
from ferrule.run.machine import outcome_as_dict
from ferrule.run.timeline import timeline_of
from ferrule.run.timeline_entry import title_of
from ferrule.server.apis.approvals import limit_in
from ferrule.server.gateway import Gateway
from ferrule.server.http import ANY, Answer, Asked, Route, Whole
from ferrule.server.tools.approval_view import approval_view

MOST = 100
_USUAL = 20
LONGEST = 1_000


def routes(gateway: Gateway) -> list[Route]:
    async def listed(asked: Asked) -> Answer:
        now = time.time()
        most = limit_in(asked, _USUAL, MOST)
        try:
            found = await gateway.ledger.conversations_of(asked.principal.tenant, _search(asked, most + 1))
        except LedgerError as refusal:
            if refusal.code != "bad_cursor":
                raise
            raise DefinitionError(f"after: {refusal.message}", hint="Begin without after.") from refusal
        data = [_line(one, now) for one in found[:most]]
        return Whole.of({"object": "list", "data": data, "has_more": len(found) > most})

    async def one(asked: Asked) -> Answer:
        id = asked.params["id"]
        record = None if "\x00" in id else await gateway.ledger.load(id)
        if record is None or not _may_see(asked, record):
            raise NotFoundError("there is no such conversation", hint="See /v1/conversations.")
        return Whole.of(await _whole(gateway, record, time.time()))

    return [
        Route("GET", "/v1/conversations", listed, ANY, shape),
        Route("GET", "/v1/conversations/{id}", one, ANY, shape),
    ]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


def _search(asked: Asked, most: int) -> Search:
    given = {key: asked.query.get(key, "") for key in ("text", "tool", "after", "principal")}
    for key, value in given.items():
        if len(value) > LONGEST or "\x00" in value:
            raise DefinitionError(f"{key}: it is too long, or holds a NUL", hint=f"At most {LONGEST} characters.")
    whose = given["principal"] if "admin" in asked.rights else asked.principal.name
    return Search(principal=whose, text=given["text"], tool=given["tool"], behind=given["after"], most=most)


def _may_see(asked: Asked, record: ConversationRecord) -> bool:
    is_his = record.principal == asked.principal.name
    return record.tenant == asked.principal.tenant and (is_his or "admin" in asked.rights)


def _line(one: ConversationLine, now: float) -> dict[str, Any]:
    return {
        "object": "conversation",
        "id": one.id,
        "principal": one.principal,
        "opened_at": one.opened_at,
        "changed_at": one.changed_at,
        "version": one.version,
        "is_held": one.lease_until > now,
        "title": one.title,
    }


async def _whole(gateway: Gateway, record: ConversationRecord, now: float) -> dict[str, Any]:
    ledger = gateway.ledger
    audit = await ledger.audit(record.id)
    breach = await ledger.verify(record.id)
    state = cast("dict[str, Any]", record.state or {})
    loop = cast("dict[str, Any]", state.get("loop") or {})
    messages = [*state.get("messages", ()), *loop.get("added", ())]
    calls, approvals = await ledger.calls(record.id), await ledger.approvals_in(record.id)
    head = ConversationLine(
        *(record.id, record.tenant, record.principal, record.version, record.lease_until),
        *(audit[0].at if audit else 0.0, audit[-1].at if audit else 0.0),
        title_by(state.get("messages", ())) or title_of(_first_tool(audit, calls)),
    )
    moments = timeline_of(audit, _read(messages), calls, approvals, now=now)
    return {
        **_line(head, now),
        "within": state.get("within", ""),
        "messages": messages,
        "is_unfinished": bool(loop),
        "calls": [_call(call) for call in calls],
        "approvals": [approval_view(one, now) for one in approvals],
        "timeline": [moment.as_dict() for moment in moments],
        "audit": {"rows": [_row(row) for row in audit], "chain": _chain(breach)},
    }


def _read(messages: list[dict[str, Any]]) -> tuple[ChatMessage, ...]:
    """A record that somebody spoiled is shown as it is, and what can be told of it still is."""
    try:
        return messages_from_json(messages)
    except DefinitionError:
        return ()


def _first_tool(audit: Sequence[AuditRecord], calls: Sequence[CallRecord]) -> str:
    tools = {call.id: call.tool for call in calls}
    proposed = (row.call_id for row in audit if row.kind == CallState.PROPOSED.value)
    return next((tools[id] for id in proposed if id in tools), "")


def _call(call: CallRecord) -> dict[str, Any]:
    return {
        "id": call.id,
        "tool": call.tool,
        "fingerprint": call.tool_fingerprint,
        "arguments": call.arguments.decode("utf-8", "backslashreplace"),
        "arguments_sha256": call.arguments_sha256,
        "side_effects": call.side_effects,
        "needs_leave": call.needs_leave,
        "state": call.state.value,
        "outcome": outcome_as_dict(call.outcome) if call.outcome else None,
    }


def _row(row: AuditRecord) -> dict[str, Any]:
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


def _chain(breach: Breach | None) -> dict[str, Any]:
    return {"holds": breach is None, "breach": "" if breach is None else str(breach)}
