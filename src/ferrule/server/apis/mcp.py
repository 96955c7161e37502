"""`/mcp`: the gateway as an MCP server over streamable HTTP, without sessions, for both generations of the protocol.

Calls follow the rules of `/v1/tools/call`. A call that needs approval returns an error that names the approval. A
client of 2026-07-28 that can ask its user, with a key that may approve, is sent an elicitation instead.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from ferrule.core.call import ToolResult
from ferrule.core.context import DEFAULT_HOPS, Principal, Progress
from ferrule.core.json_text import digest, dumps, loads
from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import visible, visible_text
from ferrule.dialects.caller_error import caller_error
from ferrule.dialects.mcp_server import (
    HANDSHAKE,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODERN,
    REFUSED,
    SERVER,
    STRUCTURED,
    RpcError,
    RpcNotification,
    RpcRequest,
    error_for,
    progress_notification,
    read_message,
    result_message,
)
from ferrule.dialects.sse import encode_json_text
from ferrule.errors import AuthorityError, FerruleError
from ferrule.run.ledger.ledger import Approval, CallState, Ledger
from ferrule.server.apis.tools import HOPS, read_hops
from ferrule.server.gateway import Gateway
from ferrule.server.http import EVENTS, AnyResponse, Request, Response, Route, StreamingResponse
from ferrule.server.tools.approval_decision import ApprovalDecision, record_decision
from ferrule.server.tools.service import UNNAMED_PREFIX, CallKey, CallRequest, CompletedCall, ToolService

PAGE = 500
_TTL = 30_000
_HEADER_KEYWORD = "x-mcp-header"
# JSON Schema keywords that map names to schemas, and keywords whose values are data.
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"const", "default", "enum", "examples"})
_CAPABILITIES = {"tools": {"listChanged": False}}
_INSTRUCTIONS = "Tools of a Ferrule gateway. Calls with side effects wait for a person's approval."
CODE, CALL_ID, APPROVAL = "ferrule.dev/code", "ferrule.dev/call-id", "ferrule.dev/approval"


def initialize_result(rpc: RpcRequest) -> dict[str, Any]:
    return {
        "protocolVersion": rpc.version,
        "capabilities": _CAPABILITIES,
        "serverInfo": SERVER,
        "instructions": _INSTRUCTIONS,
    }


def discover_result() -> dict[str, Any]:
    versions = [*MODERN, *reversed(HANDSHAKE)]
    result = {"supportedVersions": versions, "capabilities": _CAPABILITIES, "instructions": _INSTRUCTIONS}
    return {**result, "ttlMs": _TTL, "cacheScope": "public"}


def tools_list_result(rpc: RpcRequest, tools: Iterable[ToolDefinition], cursor: str = "") -> dict[str, Any]:
    """Return one page, sorted by name; the cursor is the last name of the page before."""
    remaining = sorted((tool for tool in tools if tool.name > cursor), key=lambda tool: tool.name)
    page = remaining[:PAGE]
    result: dict[str, Any] = {"tools": [_tool_view(tool) for tool in page]}
    if len(remaining) > PAGE:
        result["nextCursor"] = page[-1].name
    # Private, because other keys may use other tools.
    return {**result, "ttlMs": _TTL, "cacheScope": "private"} if rpc.is_modern else result


def tool_call_result(rpc: RpcRequest, result: ToolResult, code: str = "", **meta: str) -> dict[str, Any]:
    body: dict[str, Any] = {"content": [{"type": "text", "text": result.text}], "isError": result.is_error}
    is_structured = not isinstance(result.content, str) if rpc.is_modern else isinstance(result.content, dict)
    if is_structured and result.content is not None and rpc.version in STRUCTURED:
        body["structuredContent"] = result.content
    own = {CODE: code, CALL_ID: result.tool_call_id, **meta}
    return {**body, "_meta": {key: value for key, value in own.items() if value}}


def approval_pending_result(rpc: RpcRequest, approval: Approval) -> dict[str, Any]:
    message = (
        f"requires_confirmation: {approval.tool} has side effects and waits for a person's approval ({approval.id}). "
        "Nothing was done. After approval, the same call with the same arguments runs it."
    )
    result = ToolResult(approval.call_id, approval.tool, message, is_error=True)
    return tool_call_result(rpc, result, "requires_confirmation", **{APPROVAL: approval.id})


def approval_elicitation(approval: Approval) -> dict[str, Any]:
    """Return the elicitation that asks the client's user for approval. The text shows the exact bytes that will run."""
    form = {
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": "Allow exactly this call, once", "default": False}},
        "required": ["approve"],
    }
    message = f"Allow {visible(approval.tool)} with {visible_text(approval.arguments)}?"
    params = {"mode": "form", "message": message, "requestedSchema": form}
    return {
        "inputRequests": {"approval": {"method": "elicitation/create", "params": params}},
        "requestState": approval.id,
    }


def read_approval_answer(rpc: RpcRequest) -> tuple[str, bool | None]:
    """Read the approval that a client answers, and the answer; None if its user gave none."""
    state, responses = rpc.params.get("requestState"), rpc.params.get("inputResponses")
    response = cast("dict[str, Any]", responses).get("approval") if isinstance(responses, dict) else None
    if not isinstance(state, str) or not isinstance(response, dict):
        return "", None
    answer = cast("dict[str, Any]", response)
    content = answer.get("content")
    approve = cast("dict[str, Any]", content).get("approve") if isinstance(content, dict) else None
    match answer.get("action"):
        case "accept":
            return state, approve is True
        case "decline":
            return state, False
        case _:
            return state, None


def _tool_view(tool: ToolDefinition) -> dict[str, Any]:
    schema = {**cast("dict[str, Any]", without_header_keywords(tool.parameters)), "type": "object"}
    hints = {"readOnlyHint": not tool.side_effects, "destructiveHint": tool.side_effects}
    return {"name": tool.name, "description": tool.description, "inputSchema": schema, "annotations": hints}


def without_header_keywords(schema: object) -> object:
    """Remove `x-mcp-header` keywords: a tool's server may want arguments in headers, but our clients must not care."""
    if isinstance(schema, list):
        return [without_header_keywords(one) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    keywords = cast("Mapping[str, Any]", schema)
    return {key: _part(key, value) for key, value in keywords.items() if key != _HEADER_KEYWORD}


def _part(key: str, value: Any) -> Any:
    if key in _VALUES:
        return value
    if key in _SCHEMA_MAPS and isinstance(value, dict):
        return {name: without_header_keywords(one) for name, one in cast("dict[str, Any]", value).items()}
    return without_header_keywords(value)


_ENDED = frozenset({CallState.DONE, CallState.FAILED, CallState.UNKNOWN, CallState.REFUSED})


async def unnamed_call_key(ledger: Ledger, principal: Principal, tool: str, arguments: object) -> CallKey:
    """Return the key of the first identical call that has not ended."""
    parts = [principal.tenant, principal.name, tool, arguments]
    conversation = f"{UNNAMED_PREFIX}{digest(parts)[:40]}"
    # It may be new: other databases need not be asked for it.
    ledger = await ledger.of_tenant(principal.tenant)

    async def is_over(number: int) -> bool:
        call = await ledger.call(conversation, str(number))
        if call is None or call.state in _ENDED:
            # One that ran after its approval, while the caller was gone, is answered before a new one begins.
            return call is not None and not await ledger.is_uncollected(conversation, call.id)
        if call.state is not CallState.DENIED:
            return False
        # A denial is repeated until the approval would have expired.
        approval = await ledger.approval_for(conversation, call.id)
        return approval is None or approval.expires_at <= time.time()

    return CallKey(conversation, str(await first_open_number(is_over)))


async def first_open_number(is_over: Callable[[int], Awaitable[bool]]) -> int:
    """Return the first number, from 1, that is not over. All numbers before it are, so a binary search finds it."""
    high = 1
    while await is_over(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if await is_over(middle) else (low, middle)
    return high


IDEMPOTENCY_KEY, META_HOPS = "ferrule.dev/idempotency-key", "ferrule.dev/hops"
_MAX_CALL_ID = 200
_APPROVAL = re.compile("[0-9a-f]{1,64}")
_KEEP_ALIVE = b": keep-alive\n\n"
Reply = dict[str, Any] | RpcError


def routes(gateway: Gateway) -> list[Route]:
    server = _McpServer(gateway, ToolService(gateway))

    async def reject_session(request: Request) -> AnyResponse:
        # GET would listen to a session and DELETE would end one, but there are none.
        error = RpcError(REFUSED, "this server has no sessions: send every message with POST")
        return Response.json(error.as_dict(), 405, {"allow": "POST"})

    return [
        Route("POST", "/mcp", server.answer, "tools", render_error),
        Route("GET", "/mcp", reject_session, "tools", render_error),
        Route("DELETE", "/mcp", reject_session, "tools", render_error),
    ]


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    shown = caller_error(error)
    return RpcError(REFUSED, shown.text, data={"code": shown.code, "request_id": request_id}).as_dict()


class _McpServer:
    def __init__(self, gateway: Gateway, service: ToolService) -> None:
        self._gateway = gateway
        self._service = service

    async def answer(self, http_request: Request) -> AnyResponse:
        rpc = read_message(http_request.body, http_request.headers)
        if isinstance(rpc, RpcNotification):
            return Response(status=202)
        if isinstance(rpc, RpcError):
            return _response(rpc)
        if rpc.method == "tools/call" and rpc.progress_token is not None and _accepts_events(http_request):
            data, keep_alive_seconds = (
                self._with_progress(http_request, rpc),
                self._gateway.config.limits.keep_alive_seconds,
            )
            return StreamingResponse(data, keep_alive=_KEEP_ALIVE, keep_alive_seconds=keep_alive_seconds)
        return _response(await self._reply(http_request, rpc, lambda progress: None))

    async def _reply(self, http_request: Request, rpc: RpcRequest, on_progress: Callable[[Progress], None]) -> Reply:
        match rpc.method, rpc.is_modern:
            case "initialize", False:
                return result_message(rpc, initialize_result(rpc))
            case "ping", False:
                return result_message(rpc, {})
            case "server/discover", True:
                return result_message(rpc, discover_result())
            case "tools/list", _:
                cursor = rpc.params.get("cursor", "")
                if not isinstance(cursor, str):
                    return error_for(rpc, INVALID_PARAMS, "params.cursor must be a string")
                return result_message(
                    rpc, tools_list_result(rpc, self._gateway.tool_catalog.tools_for(http_request.principal), cursor)
                )
            case "tools/call", _:
                return await self._call_tool(http_request, rpc, on_progress)
            case method, _:
                return error_for(rpc, METHOD_NOT_FOUND, f"unknown method {method[:80]!r}")

    async def _call_tool(
        self, http_request: Request, rpc: RpcRequest, on_progress: Callable[[Progress], None]
    ) -> Reply:
        name, arguments = rpc.params.get("name"), rpc.params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            return error_for(rpc, INVALID_PARAMS, "params.name must be a string, and params.arguments an object")
        try:
            call_request = CallRequest(
                name=name,
                arguments=_text(cast("object", arguments) or {}),
                principal=http_request.principal,
                call_id=_call_id(rpc),
                hops=_hops(http_request, rpc),
                on_progress=on_progress,
            )
            return await self._run_call(http_request, rpc, call_request)
        except FerruleError as refusal:
            # As a tool result the model can read it and correct itself; a protocol error would end its turn.
            self._gateway.telemetry.record_error(refusal)
            shown = caller_error(refusal)
            tool_result = ToolResult("", name, f"{shown.code}: {shown.message}", is_error=True)
            return result_message(rpc, tool_call_result(rpc, tool_result, shown.code))

    async def _run_call(self, http_request: Request, rpc: RpcRequest, call_request: CallRequest) -> Reply:
        approval, answer = read_approval_answer(rpc)
        key = await self._apply_answer(http_request, call_request, approval, answer) if approval else None
        key = key or await self._repeat_key(call_request)
        call = await self._service.call(call_request, key)
        if isinstance(call, CompletedCall):
            if key is not None:
                await self._gateway.ledger.collect(key.conversation, key.call_id)
            code = call.outcome.code if call.result.is_error else ""
            return result_message(rpc, tool_call_result(rpc, call.result, code))
        if rpc.supports_forms and "approve" in http_request.rights and not approval:
            return result_message(rpc, approval_elicitation(call.approval), "input_required")
        return result_message(rpc, approval_pending_result(rpc, call.approval))

    async def _apply_answer(
        self, http_request: Request, call_request: CallRequest, approval_id: str, answer: bool | None
    ) -> CallKey | None:
        """Record the answer of the client's user. The client is not trusted: its key needs the right to approve."""
        approval = await self._gateway.ledger.approval(approval_id) if _APPROVAL.fullmatch(approval_id) else None
        caller = (http_request.principal.tenant, http_request.principal.name)
        tool = self._service.tool(call_request.name, call_request.principal)
        if approval is None or (approval.tenant, approval.principal, approval.tool) != (*caller, tool.name):
            return None
        if answer is not None:
            if "approve" not in http_request.rights:
                raise AuthorityError(f"{http_request.principal.name} may not approve calls")
            await record_decision(self._gateway, approval, http_request.principal.name, ApprovalDecision(answer))
        return CallKey(approval.conversation, approval.call_id)

    async def _repeat_key(self, call_request: CallRequest) -> CallKey | None:
        """Return the key of an earlier identical call that still waits, for calls that need approval and have no id."""
        tool = self._service.tool(call_request.name, call_request.principal)
        needs_approval = tool.side_effects and self._gateway.config.tools.tools_require_confirmation_for_side_effects
        if call_request.call_id or not needs_approval:
            return None
        return await unnamed_call_key(
            self._gateway.ledger, call_request.principal, tool.name, loads(call_request.arguments)
        )

    async def _with_progress(self, http_request: Request, rpc: RpcRequest) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Progress | None] = asyncio.Queue()

        def on_progress(one: Progress) -> None:
            # Tools may run in a thread.
            loop.call_soon_threadsafe(queue.put_nowait, one)

        task = asyncio.ensure_future(self._reply(http_request, rpc, on_progress))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (report := await queue.get()) is not None:
                assert rpc.progress_token is not None
                yield encode_json_text(
                    dumps(progress_notification(rpc.progress_token, report.done, report.total, report.message))
                )
            reply = task.result()
            yield encode_json_text(dumps(reply.as_dict() if isinstance(reply, RpcError) else reply))
        finally:
            task.cancel()


def _response(reply: Reply) -> Response:
    return Response.json(reply.as_dict(), reply.status) if isinstance(reply, RpcError) else Response.json(reply)


def _text(arguments: object) -> str:
    try:
        return dumps(arguments)
    except (ValueError, RecursionError):
        # A number that JSON does not have. This text is not JSON either, so validation rejects it with its own message.
        return "nothing that is JSON"


def _call_id(rpc: RpcRequest) -> str:
    """Return the client's idempotency key as call id; its hash, if it is too long for an id."""
    key = rpc.meta.get(IDEMPOTENCY_KEY)
    if not isinstance(key, str) or not key:
        return ""
    return key if len(key) <= _MAX_CALL_ID and key.isprintable() else digest(key)


def _hops(http_request: Request, rpc: RpcRequest) -> int:
    inside = rpc.meta.get(META_HOPS, DEFAULT_HOPS)
    hops = inside if isinstance(inside, int) and not isinstance(inside, bool) else 0
    return min(max(hops, 0), read_hops(http_request.headers.get(HOPS)))


def _accepts_events(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return EVENTS in accepted or "*/*" in accepted
