"""`/mcp`: the gateway as an MCP server over streamable HTTP, without sessions, for both generations of the protocol.

Calls follow the rules of `/v1/tools/call`. A call that needs approval returns an error that names the approval. A
client of 2026-07-28 that can ask its user, with a key that may approve, is sent an elicitation instead. A client that
takes tasks is sent one for a call that takes long or waits (`mcp_tasks`).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

from ferrule.core.call import ToolResult
from ferrule.core.context import DEFAULT_HOPS, Principal, Progress
from ferrule.core.json_text import digest, dumps, loads
from ferrule.dialects.caller_error import caller_error
from ferrule.dialects.mcp_server import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REFUSED,
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
from ferrule.run.ledger.ledger import CallState, Ledger
from ferrule.server.apis.mcp_results import (
    approval_elicitation,
    approval_pending_result,
    discover_result,
    initialize_result,
    read_approval_answer,
    tool_call_result,
    tools_list_result,
)
from ferrule.server.apis.mcp_tasks import RESULT, McpTasks, Reply
from ferrule.server.apis.tools import HOPS, read_hops
from ferrule.server.gateway import Gateway
from ferrule.server.http import EVENTS, AnyResponse, Request, Response, Route, StreamingResponse
from ferrule.server.tools.approval_decision import ApprovalDecision, record_decision
from ferrule.server.tools.call_tasks import CallTasks
from ferrule.server.tools.service import UNNAMED_PREFIX, CallKey, CallRequest, CompletedCall, ToolService

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
        self._tasks = McpTasks(gateway, CallTasks(gateway, service))

    async def answer(self, http_request: Request) -> AnyResponse:
        rpc = read_message(http_request.body, http_request.headers)
        if isinstance(rpc, RpcNotification):
            return Response(status=202)
        if isinstance(rpc, RpcError):
            return _response(rpc)
        may_take_long = rpc.progress_token is not None if rpc.method == "tools/call" else rpc.method == RESULT
        if may_take_long and _accepts_events(http_request):
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
            case _ if self._tasks.has_method(rpc):
                return await self._tasks.reply(http_request, rpc)
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
        if rpc.wants_task:
            return await self._tasks.begin(rpc, call_request)
        if not approval and self._tasks.may_answer_with_task(rpc, http_request):
            return await self._tasks.call(rpc, call_request)
        key = await self._apply_answer(http_request, call_request, approval, answer) if approval else None
        key = key or await self._repeat_key(call_request)
        call = await self._service.call(call_request, key)
        if isinstance(call, CompletedCall):
            if key is not None:
                await self._gateway.ledger.collect(key.conversation, key.call_id)
            return result_message(rpc, tool_call_result(rpc, call.result, call.error_code))
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
