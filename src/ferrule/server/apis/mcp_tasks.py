"""The `tasks/...` methods of `/mcp`, in both generations of the protocol.

In 2025-11-25 the client makes a call a task, and fetches its result with `tasks/result`, which waits. In 2026-07-28 the
server decides, for clients that declare the extension; the result comes with the state, and a client whose key may
approve answers the question for approval with `tasks/update`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from ferrule.core.call import ToolResult
from ferrule.dialects.caller_error import caller_error
from ferrule.dialects.mcp_server import (
    CORE_TASKS,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    REFUSED,
    TASKS,
    RpcError,
    RpcRequest,
    error_for,
    mapping,
    result_message,
)
from ferrule.errors import AuthorityError, FerruleError
from ferrule.server.apis.mcp_results import (
    APPROVAL,
    approval_question,
    read_approval,
    tool_call_result,
)
from ferrule.server.gateway import Gateway
from ferrule.server.http import Request
from ferrule.server.tools.approval_decision import ApprovalDecision, record_decision
from ferrule.server.tools.call_tasks import CallTask, CallTasks, bounded_ttl
from ferrule.server.tools.service import CallRequest, CompletedCall
from ferrule.sources.mcp.tasks import CANCELLED, COMPLETED, FAILED, INPUT_REQUIRED

RESULT: Final = "tasks/result"
Reply = dict[str, Any] | RpcError
_RELATED = "io.modelcontextprotocol/related-task"
_POLL_MS = 1_000
# How long a cancelled call may take to end before the answer says that it still runs.
_CANCEL_SECONDS = 5.0
_Method = Callable[[Request, RpcRequest, CallTask], Awaitable[Reply]]


class McpTasks:
    def __init__(self, gateway: Gateway, tasks: CallTasks) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._modern: dict[str, _Method] = {
            "tasks/get": self._get,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }
        self._core: dict[str, _Method] = {"tasks/get": self._get, RESULT: self._result, "tasks/cancel": self._cancel}

    def has_method(self, rpc: RpcRequest) -> bool:
        if rpc.is_modern:
            return rpc.method in self._modern
        return rpc.version in CORE_TASKS and (rpc.method in self._core or rpc.method == "tasks/list")

    def may_answer_with_task(self, rpc: RpcRequest, http_request: Request) -> bool:
        return rpc.supports_tasks and self._tasks.has_room(http_request.principal)

    async def begin(self, rpc: RpcRequest, call_request: CallRequest) -> Reply:
        """Begin the task that a client of 2025-11-25 makes of a call."""
        ttl = mapping(rpc.params["task"]).get("ttl")
        is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
        seconds = cast("float", ttl) / 1_000 if is_number else None
        try:
            task = await self._tasks.begin(call_request, bounded_ttl(seconds))
        except FerruleError as refusal:
            # A result would have to be a task.
            return self._refusal(rpc, refusal, INVALID_PARAMS if refusal.status < 500 else REFUSED)
        return result_message(rpc, {"task": _core_view(task)})

    async def call(self, rpc: RpcRequest, call_request: CallRequest) -> Reply:
        """Run a call, and answer with its result or, in 2026-07-28, with a task. Raises if it may not run."""
        call = await self._tasks.call(call_request)
        if isinstance(call, CompletedCall):
            return result_message(rpc, tool_call_result(rpc, call.result, call.error_code))
        return result_message(rpc, _modern_view(call), "task")

    async def reply(self, http_request: Request, rpc: RpcRequest) -> Reply:
        """Answer a method about tasks: one for which `has_method`."""
        if rpc.is_modern and not rpc.supports_tasks:
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            return error_for(rpc, MISSING_CAPABILITY, f"{rpc.method} needs the capability {TASKS}", needed)
        try:
            if rpc.method == "tasks/list":
                return await self._list(http_request, rpc)
            id = rpc.params.get("taskId")
            find = self._tasks.cancel if rpc.method == "tasks/cancel" else self._tasks.find
            task = await find(http_request.principal, id) if isinstance(id, str) else None
            if task is None:
                return _unknown(rpc)
            methods = self._modern if rpc.is_modern else self._core
            return await methods[rpc.method](http_request, rpc, task)
        except FerruleError as refusal:
            return self._refusal(rpc, refusal, REFUSED)

    async def _get(self, http_request: Request, rpc: RpcRequest, task: CallTask) -> Reply:
        if not rpc.is_modern:
            return result_message(rpc, _core_view(task))
        view = _modern_view(task)
        if task.approval is not None and rpc.supports_forms and "approve" in http_request.rights:
            view |= {"status": INPUT_REQUIRED, "inputRequests": {task.approval.id: approval_question(task.approval)}}
        if task.status == FAILED:
            view["error"] = _error_of(task)
        elif task.status == COMPLETED and task.result is not None:
            view["result"] = tool_call_result(rpc, task.result, task.code)
        return result_message(rpc, view)

    async def _update(self, http_request: Request, rpc: RpcRequest, task: CallTask) -> Reply:
        responses = mapping(rpc.params.get("inputResponses"))
        # An answer to a question that is not asked any more, or never was, has no effect.
        answer = read_approval(responses[task.approval.id]) if task.approval and task.approval.id in responses else None
        if task.approval is not None and answer is not None:
            # The client is not trusted: its key needs the right to approve.
            if "approve" not in http_request.rights:
                raise AuthorityError(f"{http_request.principal.name} may not approve calls")
            await record_decision(self._gateway, task.approval, http_request.principal.name, ApprovalDecision(answer))
            await self._tasks.find(http_request.principal, task.id)
        return result_message(rpc, {})

    async def _cancel(self, http_request: Request, rpc: RpcRequest, task: CallTask) -> Reply:
        if rpc.is_modern:
            return result_message(rpc, {})
        if task.has_ended:
            return error_for(rpc, INVALID_PARAMS, f"the task has ended: it is {task.status}")
        after = await self._tasks.wait(http_request.principal, task.id, _CANCEL_SECONDS)
        return _unknown(rpc) if after is None else result_message(rpc, _core_view(after))

    async def _result(self, http_request: Request, rpc: RpcRequest, task: CallTask) -> Reply:
        ended = await self._tasks.wait(http_request.principal, task.id)
        if ended is None:
            return _unknown(rpc)
        if ended.status == FAILED:
            error = _error_of(ended)
            return error_for(rpc, error["code"], error["message"], error["data"])
        result = ended.result or ToolResult(ended.id, "", ended.message, is_error=True)
        body = tool_call_result(rpc, result, ended.code or (CANCELLED if ended.status == CANCELLED else ""))
        return result_message(rpc, {**body, "_meta": {**body["_meta"], _RELATED: {"taskId": ended.id}}})

    async def _list(self, http_request: Request, rpc: RpcRequest) -> Reply:
        cursor = rpc.params.get("cursor", "")
        if not isinstance(cursor, str) or not cursor.isprintable():
            return error_for(rpc, INVALID_PARAMS, "params.cursor must be one of this server's cursors")
        tasks, next_cursor = await self._tasks.list(http_request.principal, cursor)
        result: dict[str, Any] = {"tasks": [_core_view(task) for task in tasks]}
        return result_message(rpc, {**result, "nextCursor": next_cursor} if next_cursor else result)

    def _refusal(self, rpc: RpcRequest, refusal: FerruleError, code: int) -> RpcError:
        self._gateway.telemetry.record_error(refusal)
        shown = caller_error(refusal)
        return error_for(rpc, code, f"{shown.code}: {shown.message}", {"code": shown.code})


def _unknown(rpc: RpcRequest) -> RpcError:
    return error_for(rpc, INVALID_PARAMS, "unknown task")


def _error_of(task: CallTask) -> dict[str, Any]:
    return {"code": REFUSED, "message": task.message or "the call failed", "data": {"code": task.code}}


def _view(task: CallTask) -> dict[str, Any]:
    message = {"statusMessage": task.message} if task.message else {}
    times = {"createdAt": _timestamp(task.created_at), "lastUpdatedAt": _timestamp(task.updated_at)}
    own: Mapping[str, Any] = {"_meta": {APPROVAL: task.approval.id}} if task.approval is not None else {}
    return {"taskId": task.id, "status": task.status, **message, **times, **own}


def _core_view(task: CallTask) -> dict[str, Any]:
    return {**_view(task), "ttl": round(task.ttl * 1_000), "pollInterval": _POLL_MS}


def _modern_view(task: CallTask) -> dict[str, Any]:
    return {**_view(task), "ttlMs": round(task.ttl * 1_000), "pollIntervalMs": _POLL_MS}


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
