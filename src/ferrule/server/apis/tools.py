"""`/v1/tools`, one of them, and `/v1/tools/call`: the tools for programs. The last is `llm.tools.call@1.0` over HTTP.

A call that changes the world is answered 202 with its approval until somebody has decided; the same call again, under
the same `call_id`, then runs it, once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from ferrule.core.context import DEFAULT_HOPS
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.openai_error import error_body
from ferrule.errors import DefinitionError, FerruleError, NotFoundError
from ferrule.server.auth.json_limits import check_json
from ferrule.server.config.config import Limits
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Whole
from ferrule.server.tools.approval_view import approval_view
from ferrule.server.tools.enforcement import enforcement_of
from ferrule.server.tools.service import Governed, Settled, Waiting, Wanted

HOPS = "ferrule-hops"
"""How many calls deep tools may still call tools. Whoever calls from inside a tool passes on what he was given."""
CALL_ID = "ferrule-call-id"
_LATEST = 1e12
_NAME = re.compile("[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")
# The specification's four words for what goes wrong on the wire, and what HTTP says with each.
_WIRE = {"bad_request": 400, "token_scope_insufficient": 403, "timeout": 504, "internal_error": 502}
_TYPES = {400: "invalid_request_error", 403: "permission_error"}


def routes(gateway: Gateway) -> list[Route]:
    governed = Governed(gateway)

    async def listed(asked: Asked) -> Answer:
        offered = gateway.toolbox.offered(asked.principal)
        owner_of = gateway.toolbox.source.owner_of
        data = [tool_view(tool, owner_of(tool.name)) for tool in sorted(offered, key=lambda one: one.name)]
        # What is not offered and why is for who runs the gateway: it names tools that others may not know of.
        notices = list(gateway.toolbox.notices) if "admin" in asked.rights else []
        return Whole.of({"object": "list", "data": data, "notices": notices})

    async def one(asked: Asked) -> Answer:
        name = asked.params["name"]
        tool = next((tool for tool in gateway.toolbox.offered(asked.principal) if tool.name == name), None)
        if tool is None:
            # One that he may not use is as good as not there.
            raise NotFoundError("there is no such tool", code="tool_not_found", hint="See /v1/tools.")
        held = await enforcement_of(gateway, asked, tool)
        return Whole.of({**tool_view(tool, gateway.toolbox.source.owner_of(name)), "enforcement": held})

    async def called(asked: Asked) -> Answer:
        settled = await governed.call(wanted_in(asked, gateway.config.limits))
        return _waits(settled) if isinstance(settled, Waiting) else _told(settled)

    return [
        Route("GET", "/v1/tools", listed, "tools", shape),
        Route("GET", "/v1/tools/{name}", one, "tools", shape),
        Route("POST", "/v1/tools/call", called, "tools", shape),
    ]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
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


def wanted_in(asked: Asked, limits: Limits) -> Wanted:
    """The call that a request asks for. Arguments that come as a text are JSON inside JSON, with the same bounds."""
    body = Field(asked.json())
    arguments = body["arguments"]
    text = arguments.string() if isinstance(arguments.value, str) else arguments.json()
    check_json(text.encode("utf-8", "surrogatepass"), limits.json_depth, limits.json_values)
    deadline = body["deadline"].optional(Field.number)
    return Wanted(
        name=body["name"].string(),
        arguments=text if arguments.is_given else "{}",
        principal=asked.principal,
        call_id=_name(body["call_id"]),
        conversation=_name(body["conversation"]),
        # A whole number may have more digits than a float has room for.
        deadline=None if deadline is None else float(min(max(deadline, 0), _LATEST)),
        hops=hops_in(asked.headers.get(HOPS)),
    )


def hops_in(given: str | None) -> int:
    """Nobody is given more than the gateway allows."""
    if given is None:
        return DEFAULT_HOPS
    if not re.fullmatch("[0-9]{1,6}", given):
        raise DefinitionError(f"{HOPS}: {given[:40]!r} is not a whole number", hint="Pass on what you were given.")
    return min(int(given), DEFAULT_HOPS)


def wire_code(outcome: Outcome) -> str:
    """The specification's word for an outcome that is no answer; empty where the tool has answered."""
    match outcome:
        case Answered(is_error=False):
            return ""
        case Answered(code=code):
            return code if code in _WIRE else ""
        case NotDelivered(code=code) | Unknown(code=code):
            return code if code in _WIRE else "internal_error"


def _waits(waiting: Waiting) -> Whole:
    told = {"object": "tool.waiting", "call_id": waiting.call.id, "name": waiting.call.name}
    body = {**told, "approval": approval_view(waiting.approval, time.time())}
    headers = {CALL_ID: _ascii(waiting.call.id), "location": f"/v1/approvals/{waiting.approval.id}"}
    return Whole.of(body, 202, headers)


def _told(settled: Settled) -> Whole:
    outcome, result = settled.outcome, settled.result
    headers = {CALL_ID: _ascii(settled.call.id)}
    code = wire_code(outcome)
    if code:
        return _failed(settled, code, headers)
    own = outcome.code if isinstance(outcome, Answered) else ""
    body = {
        "object": "tool.result",
        "call_id": settled.call.id,
        "name": settled.call.name,
        "arguments": settled.call.function.arguments,
        "content": result.content,
        "is_error": result.is_error,
        "code": own,
    }
    return Whole.of(body, headers=headers)


def _failed(settled: Settled, code: str, headers: Mapping[str, str]) -> Whole:
    status = _WIRE[code]
    kinds: dict[type, str] = {NotDelivered: "not_delivered", Unknown: "unknown"}
    outcome = kinds.get(type(settled.outcome), "answered")
    error = {"message": settled.result.text, "type": _TYPES.get(status, "server_error"), "param": None, "code": code}
    told = {"call_id": settled.call.id, "name": settled.call.name, "outcome": outcome}
    # Under the same id nothing runs again, and where it may have run nobody should try under another.
    return Whole.of({"error": error, **told}, status, {**headers, "x-should-retry": "false"})


def _name(field: Field) -> str:
    text = field.or_else(Field.string, "")
    if field.is_given and not _NAME.fullmatch(text):
        raise field.refusal("is no name", "Use 1 to 200 characters, none of them a control character.")
    return text


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
