"""`/v1/approvals`: list, inspect, follow and decide the calls that wait for approval, for keys with the approve right.

Each approval is decided once, alone or with others in one request. Replacement arguments can be checked any number of
times before; that decides nothing.

A principal sees and decides only the approvals of its own tenant; those of others are reported as missing.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps
from ferrule.dialects.field import Field
from ferrule.dialects.openai_error import error_body
from ferrule.dialects.sse import encode_json_text
from ferrule.errors import DefinitionError, FerruleError, NotFoundError
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.ledger.search import ApprovalQuery
from ferrule.server.apis.query import read_limit, read_terms, reported_cursor
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response, Route, StreamingResponse
from ferrule.server.tools.approval_context import (
    EXPIRED,
    approval_view,
    approval_with_context,
    approvals_with_context,
)
from ferrule.server.tools.approval_decision import ApprovalDecision, faults_of, record_decision
from ferrule.server.tools.approval_feed import ApprovalFeed
from ferrule.server.tools.approval_request import request_view

MAX_LIMIT = 200
MAX_DECISIONS = 100
MAX_FILTER_CHARS = 1_000
_DEFAULT_LIMIT = 50
_TEXT_PART = 500
"""How many approvals are read at once to look for a text."""
_KEEP_ALIVE = b": keep-alive\n\n"
DECIDED = "decided"
"""A filter and not a state: approvals that a person approved or denied, whatever their state is now."""
STATES = (*(state.value for state in ApprovalState), EXPIRED, DECIDED)
ORDERS = ("asc", "desc")
FILTERS = ("tool", "principal", "conversation", "text")
"""The first three must be equal; `text` is searched in the tool's name and in the arguments as they are shown."""


def routes(gateway: Gateway) -> list[Route]:
    feed = ApprovalFeed(gateway)

    async def list_approvals(request: Request) -> AnyResponse:
        now, limit = time.time(), read_limit(request, _DEFAULT_LIMIT, MAX_LIMIT)
        status, order = _read_option(request, "state", ("", *STATES)), _read_option(request, "order", ORDERS)
        filters = _read_filters(request)
        text = filters.pop("text", "")
        query = ApprovalQuery(
            status=status,
            after=read_terms(request, "after")["after"],
            limit=limit + 1,
            is_newest_first=order == "desc",
            now=now,
            **filters,
        )
        with reported_cursor():
            page = await _find_page(gateway, request.principal.tenant, query, text)
        data = await approvals_with_context(gateway, page[:limit], now)
        return Response.json({"object": "list", "data": data, "has_more": len(page) > limit})

    async def follow_approvals(request: Request) -> AnyResponse:
        limits = gateway.config.limits
        return StreamingResponse(
            _encode(feed, request.principal.tenant),
            keep_alive=_KEEP_ALIVE,
            keep_alive_seconds=limits.keep_alive_seconds,
        )

    async def get_approval(request: Request) -> AnyResponse:
        approval = await find_approval(gateway, request.principal, request.params["id"])
        view = await approval_with_context(gateway, approval, time.time())
        votes = await gateway.ledger.votes(approval.id) if approval.needed > 1 else ()
        return Response.json(
            {
                **view,
                "approved_by": [vote.by for vote in votes],
                "request": await request_view(gateway, approval),
            }
        )

    async def check(request: Request) -> AnyResponse:
        approval = await find_approval(gateway, request.principal, request.params["id"])
        faults = faults_of(gateway, approval, Field(request.json())["arguments"].object())
        messages = [{"path": fault.path, "message": fault.message} for fault in faults]
        return Response.json({"object": "approval.check", "fits": not faults, "faults": messages})

    async def decide(request: Request) -> AnyResponse:
        approval = await find_approval(gateway, request.principal, request.params["id"])
        decision = read_decision(Field(request.json()))
        decided_approval = await record_decision(gateway, approval, request.principal.name, decision)
        return Response.json(await approval_with_context(gateway, decided_approval, time.time()))

    async def decide_several(request: Request) -> AnyResponse:
        entries = Field(request.json())["decisions"].items()
        if not 1 <= len(entries) <= MAX_DECISIONS:
            raise DefinitionError(
                f"decisions: {len(entries)} are too few or too many", hint=f"Send 1 to {MAX_DECISIONS} in one request."
            )
        # All are read before the first is recorded: a request with a mistake in it decides nothing.
        decisions = [(entry["id"].string(), read_decision(entry)) for entry in entries]
        return Response.json(
            {"object": "list", "data": [await _decide_one(request.principal, id, one) for id, one in decisions]}
        )

    async def _decide_one(principal: Principal, id: str, decision: ApprovalDecision) -> dict[str, Any]:
        """Record one of several decisions. Its refusal does not stop the others."""
        try:
            approval = await find_approval(gateway, principal, id)
            decided = await record_decision(gateway, approval, principal.name, decision)
        except FerruleError as refusal:
            return {"id": id, "status": refusal.status, **error_body(refusal)}
        return {"id": id, "status": 200, "approval": approval_view(decided, time.time())}

    return [
        Route("GET", "/v1/approvals", list_approvals, "approve", render_error),
        # Before the routes with an id, which would take these paths too.
        Route("GET", "/v1/approvals/events", follow_approvals, "approve", render_error),
        Route("POST", "/v1/approvals/decisions", decide_several, "approve", render_error),
        Route("GET", "/v1/approvals/{id}", get_approval, "approve", render_error),
        Route("POST", "/v1/approvals/{id}", decide, "approve", render_error),
        Route("POST", "/v1/approvals/{id}/check", check, "approve", render_error),
    ]


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


async def find_approval(gateway: Gateway, principal: Principal, id: str) -> Approval:
    # No database stores NUL in text, and one of them raises an error if it is queried.
    approval = None if "\x00" in id else await gateway.ledger.approval(id)
    if approval is None or approval.tenant != principal.tenant:
        raise NotFoundError("there is no such approval", code="approval_unknown", hint="See /v1/approvals.")
    return approval


def read_decision(body: Field) -> ApprovalDecision:
    arguments = body["arguments"]
    return ApprovalDecision(
        body["approve"].boolean(),
        body["why"].or_else(Field.string, ""),
        arguments.object() if arguments.is_given else None,
        body["arguments_sha256"].or_else(Field.string, ""),
    )


async def _encode(feed: ApprovalFeed, tenant: str) -> AsyncGenerator[bytes]:
    async with aclosing(feed.follow(tenant)) as batches:
        async for events in batches:
            yield b"".join(encode_json_text(dumps(event.data), event.kind) for event in events)


def _read_filters(request: Request) -> dict[str, str]:
    filters = {name: request.query[name] for name in FILTERS if request.query.get(name)}
    for name, value in filters.items():
        if len(value) > MAX_FILTER_CHARS or "\x00" in value:
            raise DefinitionError(
                f"{name}: it is too long, or contains NUL", hint=f"At most {MAX_FILTER_CHARS} characters."
            )
    return filters


async def _find_page(gateway: Gateway, tenant: str, query: ApprovalQuery, text: str) -> list[Approval]:
    """Return a page of approvals. Those that contain a text are looked for in parts, until the page is full."""
    if not text:
        return list(await gateway.ledger.search_approvals(tenant, query))
    found: list[Approval] = []
    part = replace(query, limit=_TEXT_PART)
    while len(found) < query.limit:
        approvals = await gateway.ledger.search_approvals(tenant, part)
        found += [one for one in approvals if _contains(one, text.casefold())]
        if len(approvals) < _TEXT_PART:
            break
        part = replace(part, after=approvals[-1].id)
    return found[: query.limit]


def _contains(approval: Approval, text: str) -> bool:
    view = approval_view(approval, 0.0)
    return any(text in str(view[name]).casefold() for name in ("tool", "shown", "arguments"))


def _read_option(request: Request, key: str, allowed: tuple[str, ...]) -> str:
    """Read a query parameter with fixed values; the first of them is the default."""
    value = request.query.get(key, allowed[0])
    if value not in allowed:
        names = ", ".join(word for word in allowed if word)
        raise DefinitionError(f"{key}: {value[:40]!r} is not a valid value", hint=f"Use one of: {names}.")
    return value
