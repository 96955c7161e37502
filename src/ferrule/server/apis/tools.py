"""`/v1/tools`, `/v1/tools/{name}` and `/v1/tools/call`. The last is `llm.tools.call@1.0` over HTTP.

`/v1/tools?text=...` lists only the tools that fit the text, the best first.

A call with side effects is answered with 202 and its approval until a person decides. The same call with the same
`call_id` then runs it, once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ferrule.core.context import DEFAULT_HOPS
from ferrule.core.outcome import TOOL_BUSY, Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.openai_error import error_body
from ferrule.errors import DefinitionError, FerruleError, NotFoundError
from ferrule.server.answer.continuation import ContinuationRunner
from ferrule.server.apis.query import read_limit, read_terms
from ferrule.server.auth.request_limits import check_json
from ferrule.server.config.config import GatewayLimits
from ferrule.server.gateway import Gateway
from ferrule.server.http import OPERATOR, AnyResponse, Request, Response, Route
from ferrule.server.tools.approval_context import approval_view
from ferrule.server.tools.enforcement import enforcement_of
from ferrule.server.tools.service import CallRequest, CompletedCall, PendingCall, ToolService

HOPS = "ferrule-hops"
"""How many more levels deep tools may call tools. A call from inside a tool must pass on the value it received."""
CALL_ID = "ferrule-call-id"
DEFAULT_MATCHES, MAX_MATCHES = 20, 200
"""How many tools a search returns."""
_LATEST = 1e12
_NAME = re.compile("[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")
# The four wire error codes of the specification, with their HTTP status.
_WIRE_STATUS = {"bad_request": 400, "token_scope_insufficient": 403, "timeout": 504, "internal_error": 502}
_BUSY_STATUS = 503
_TYPES = {400: "invalid_request_error", 403: "permission_error"}


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of a running gateway, and start to act on decisions until the gateway stops."""
    service = ToolService(gateway)
    ContinuationRunner(gateway, service).open()

    async def list_tools(request: Request) -> AnyResponse:
        text = read_terms(request, "text")["text"]
        if text.strip():
            return await find_tools(request, text)
        offered = gateway.tool_catalog.tools_for(request.principal)
        owner_of = gateway.tool_catalog.source.owner_of
        data = [tool_view(tool, owner_of(tool.name)) for tool in sorted(offered, key=lambda tool: tool.name)]
        # Notices name tools that are not offered and that others may not know of, so only operators see them.
        notices = list(gateway.tool_catalog.notices) if OPERATOR in request.rights else []
        return Response.json({"object": "list", "data": data, "notices": notices})

    async def find_tools(request: Request, text: str) -> AnyResponse:
        limit = read_limit(request, DEFAULT_MATCHES, MAX_MATCHES)
        matches = await gateway.tool_catalog.search(request.principal, text, limit)
        owner_of = gateway.tool_catalog.source.owner_of
        data = [
            {**tool_view(match.tool, owner_of(match.tool.name)), "score": round(match.score, 3)} for match in matches
        ]
        return Response.json({"object": "list", "data": data, "notices": []})

    async def get_tool(request: Request) -> AnyResponse:
        name = request.params["name"]
        tool = next((tool for tool in gateway.tool_catalog.tools_for(request.principal) if tool.name == name), None)
        if tool is None:
            # A tool that the principal may not use is reported as missing.
            raise NotFoundError("there is no such tool", code="tool_not_found", hint="See /v1/tools.")
        enforcement = await enforcement_of(gateway, request, tool)
        return Response.json(
            {**tool_view(tool, gateway.tool_catalog.source.owner_of(name)), "enforcement": enforcement}
        )

    async def call_tool(request: Request) -> AnyResponse:
        call_request = read_call_request(request, gateway.config.limits)
        call = await service.call(call_request)
        if isinstance(call, PendingCall):
            return _pending_response(call)
        if isinstance(call.outcome, NotDelivered) and call.outcome.code == TOOL_BUSY:
            return _busy_response(call, may_resend=not call_request.call_id)
        return _call_response(call)

    return [
        Route("GET", "/v1/tools", list_tools, "tools", render_error),
        Route("GET", "/v1/tools/{name}", get_tool, "tools", render_error),
        Route("POST", "/v1/tools/call", call_tool, "tools", render_error),
    ]


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


def tool_view(tool: ToolDefinition, source: str) -> dict[str, Any]:
    bound = {"capability": tool.bound_capability, "version": tool.bound_version} if tool.bound_capability else None
    return {
        "object": "tool",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "source": source,
        "bound_to": bound,
        "side_effects": tool.side_effects,
        "fingerprint": tool.fingerprint,
    }


def read_call_request(request: Request, limits: GatewayLimits) -> CallRequest:
    """Read the call in a request. Arguments in a string are JSON inside JSON, with the same limits."""
    body = Field(request.json())
    arguments = body["arguments"]
    text = arguments.string() if isinstance(arguments.value, str) else arguments.json()
    check_json(text.encode("utf-8", "surrogatepass"), limits.json_depth, limits.json_values)
    deadline = body["deadline"].optional(Field.number)
    return CallRequest(
        name=body["name"].string(),
        arguments=text if arguments.is_given else "{}",
        principal=request.principal,
        call_id=_name(body["call_id"]),
        conversation=_name(body["conversation"]),
        # An integer may be too large for a float.
        deadline=None if deadline is None else float(min(max(deadline, 0), _LATEST)),
        hops=read_hops(request.headers.get(HOPS)),
    )


def read_hops(value: str | None) -> int:
    """Read the number of hops, at most the gateway's default."""
    if value is None:
        return DEFAULT_HOPS
    if not re.fullmatch("[0-9]{1,6}", value):
        raise DefinitionError(
            f"{HOPS}: {value[:40]!r} is not a whole number", hint="Pass on the value that you received."
        )
    return min(int(value), DEFAULT_HOPS)


def wire_code(outcome: Outcome) -> str:
    """Return the specification's error code of an outcome; empty if the tool has answered."""
    match outcome:
        case Answered(is_error=False):
            return ""
        case Answered(code=code):
            return code if code in _WIRE_STATUS else ""
        case NotDelivered(code=code) | Unknown(code=code):
            return code if code in _WIRE_STATUS else "internal_error"


def _pending_response(pending: PendingCall) -> Response:
    head = {"object": "tool.waiting", "call_id": pending.call.id, "name": pending.call.name}
    body = {**head, "approval": approval_view(pending.approval, time.time())}
    headers = {CALL_ID: _ascii(pending.call.id), "location": f"/v1/approvals/{pending.approval.id}"}
    return Response.json(body, 202, headers)


def _call_response(completed: CompletedCall) -> Response:
    outcome, result = completed.outcome, completed.result
    headers = {CALL_ID: _ascii(completed.call.id)}
    code = wire_code(outcome)
    if code:
        return _failure_response(completed, code, headers)
    code = outcome.code if isinstance(outcome, Answered) else ""
    body = {
        "object": "tool.result",
        "call_id": completed.call.id,
        "name": completed.call.name,
        "arguments": completed.call.function.arguments,
        "content": result.content,
        **({"media": [one.as_dict() for one in result.media]} if result.media else {}),
        "is_error": result.is_error,
        "code": code,
    }
    return Response.json(body, headers=headers)


def _busy_response(completed: CompletedCall, *, may_resend: bool) -> Response:
    """A call that certainly did not run. With a `call_id` the same request returns this refusal again."""
    headers = {CALL_ID: _ascii(completed.call.id), "retry-after": "1"}
    response = _failure_response(completed, TOOL_BUSY, headers, _BUSY_STATUS)
    return replace(response, headers={**response.headers, "x-should-retry": "true"}) if may_resend else response


def _failure_response(
    completed: CompletedCall, code: str, headers: Mapping[str, str], status: int | None = None
) -> Response:
    status = status or _WIRE_STATUS[code]
    kinds: dict[type, str] = {NotDelivered: "not_delivered", Unknown: "unknown"}
    outcome = kinds.get(type(completed.outcome), "answered")
    error = {"message": completed.result.text, "type": _TYPES.get(status, "server_error"), "param": None, "code": code}
    call = {"call_id": completed.call.id, "name": completed.call.name, "outcome": outcome}
    # The same id never runs again, and a call that may have run must not be retried with another id.
    return Response.json({"error": error, **call}, status, {**headers, "x-should-retry": "false"})


def _name(field: Field) -> str:
    text = field.or_else(Field.string, "")
    if field.is_given and not _NAME.fullmatch(text):
        raise field.refusal("is not a valid name", "Use 1 to 200 characters without control characters.")
    return text


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
