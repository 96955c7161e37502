"""`/v1/approvals`: list, inspect and decide the calls that wait for approval, for keys with the approve right.

Each approval is decided once. Replacement arguments can be checked any number of times before; that decides nothing.

A principal sees and decides only the approvals of its own tenant; those of others are reported as missing.
"""

from __future__ import annotations

import time
from typing import Any

from ferrule.dialects.field import Field
from ferrule.dialects.openai_error import error_body
from ferrule.errors import DefinitionError, FerruleError, NotFoundError
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response, Route
from ferrule.server.tools.approval_context import EXPIRED, approval_with_context, approvals_with_context, state_of
from ferrule.server.tools.approval_decision import ApprovalDecision, faults_of, record_decision

MAX_LIMIT = 200
_DEFAULT_LIMIT = 50
DECIDED = "decided"
"""A filter and not a state: approvals that a person approved or denied, whatever their state is now."""
STATES = (*(state.value for state in ApprovalState), EXPIRED, DECIDED)
ORDERS = ("asc", "desc")


def routes(gateway: Gateway) -> list[Route]:
    async def list_approvals(request: Request) -> AnyResponse:
        now = time.time()
        state, order = _read_option(request, "state", ("", *STATES)), _read_option(request, "order", ORDERS)
        approvals = await gateway.ledger.approvals_of(request.principal.tenant)
        matching = [approval for approval in approvals if _has_state(approval, state, now)]
        page = _page_after(matching[::-1] if order == "desc" else matching, request.query.get("after", ""))
        limit = read_limit(request, _DEFAULT_LIMIT, MAX_LIMIT)
        data = await approvals_with_context(gateway, page[:limit], now)
        return Response.json({"object": "list", "data": data, "has_more": len(page) > limit})

    async def get_approval(request: Request) -> AnyResponse:
        return Response.json(await approval_with_context(gateway, await find_approval(gateway, request), time.time()))

    async def check(request: Request) -> AnyResponse:
        approval = await find_approval(gateway, request)
        faults = faults_of(gateway, approval, Field(request.json())["arguments"].object())
        messages = [{"path": fault.path, "message": fault.message} for fault in faults]
        return Response.json({"object": "approval.check", "fits": not faults, "faults": messages})

    async def decide(request: Request) -> AnyResponse:
        approval = await find_approval(gateway, request)
        decided_approval = await record_decision(gateway, approval, request.principal.name, read_decision(request))
        return Response.json(await approval_with_context(gateway, decided_approval, time.time()))

    return [
        Route("GET", "/v1/approvals", list_approvals, "approve", render_error),
        Route("GET", "/v1/approvals/{id}", get_approval, "approve", render_error),
        Route("POST", "/v1/approvals/{id}", decide, "approve", render_error),
        Route("POST", "/v1/approvals/{id}/check", check, "approve", render_error),
    ]


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


async def find_approval(gateway: Gateway, request: Request) -> Approval:
    id = request.params["id"]
    # No database stores NUL in text, and one of them raises an error if it is queried.
    approval = None if "\x00" in id else await gateway.ledger.approval(id)
    if approval is None or approval.tenant != request.principal.tenant:
        raise NotFoundError("there is no such approval", code="approval_unknown", hint="See /v1/approvals.")
    return approval


def read_decision(request: Request) -> ApprovalDecision:
    body = Field(request.json())
    arguments = body["arguments"]
    return ApprovalDecision(
        body["approve"].boolean(),
        body["why"].or_else(Field.string, ""),
        arguments.object() if arguments.is_given else None,
    )


def read_limit(request: Request, default: int, maximum: int) -> int:
    """Read the page size."""
    value = request.query.get("limit", str(default))
    if not (value.isascii() and value.isdigit() and len(value) < 7 and 1 <= int(value) <= maximum):
        raise DefinitionError(
            f"limit: {value[:20]!r} is not a number from 1 to {maximum}", hint=f"Leave it out for {default}."
        )
    return int(value)


def _read_option(request: Request, key: str, allowed: tuple[str, ...]) -> str:
    """Read a query parameter with fixed values; the first of them is the default."""
    value = request.query.get(key, allowed[0])
    if value not in allowed:
        names = ", ".join(word for word in allowed if word)
        raise DefinitionError(f"{key}: {value[:40]!r} is not a valid value", hint=f"Use one of: {names}.")
    return value


def _has_state(approval: Approval, state: str, now: float) -> bool:
    if state == DECIDED:
        # An approval that expired while it was pending was never decided.
        return approval.decided_at is not None
    return not state or state_of(approval, now) == state


def _page_after(approvals: list[Approval], id: str) -> list[Approval]:
    if not id:
        return approvals
    index = next((number for number, one in enumerate(approvals) if one.id == id), None)
    if index is None:
        raise DefinitionError("after: there is no such approval in this list", hint="Start without after.")
    return approvals[index + 1 :]
