"""TaskRequests: the requests about tasks, as the SDK sends them. It has no classes for them in either generation.

The SDK accepts only the results that it knows for `tools/call`. So a result that is a task is put into an empty one
before the SDK reads it (`hide_task`), and taken out afterwards (`hidden_task`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from mcp import Client, MCPError, types
from mcp.client.extension import ClientExtension, advertise
from mcp.client.session import ClientRequestContext
from mcp.shared.dispatcher import ProgressFnT

from ferrule.sources.mcp.tasks import TASKS, TaskState, read_task

_TASK = "ferrule.dev/task"
_REQUEST_SECONDS = 30.0


def task_extensions() -> list[ClientExtension]:
    """Return what tells a server of the newer protocol that it may answer with a task."""
    return [advertise(TASKS)]


def hide_task(result: dict[str, Any]) -> None:
    """Put a result of `tools/call` that is a task into one that the SDK knows."""
    is_task = result.get("resultType") == "task"
    task: object = result if is_task else result.get("task")
    if "content" in result or not isinstance(task, dict) or "taskId" not in task:
        return
    task = dict(cast("dict[str, Any]", task))
    result.clear()
    result |= {"content": [], "_meta": {_TASK: task}, **({"resultType": "complete"} if is_task else {})}


def hidden_task(result: Mapping[str, Any]) -> TaskState | None:
    """Return the task of a result, as JSON; None if it is no task."""
    meta: object = result.get("_meta")
    return read_task(cast("dict[str, Any]", meta).get(_TASK)) if isinstance(meta, dict) else None


class _Answer(types.Result):
    """A result of which all fields are kept."""

    model_config: ClassVar[Any] = {"extra": "allow"}


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any]


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    # What a server of the newer protocol on HTTP wants as a header.
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams


class _CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams


class _UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams


class _TaskResult(types.Request[_TaskParams, Literal["tasks/result"]]):
    method: Literal["tasks/result"] = "tasks/result"
    params: _TaskParams


@dataclass(frozen=True, slots=True)
class TaskRequests:
    """Requests about the tasks of one connected server. `is_modern` says of which generation its protocol is."""

    client: Client
    is_modern: bool

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT, meta: types.RequestParamsMeta
    ) -> types.CallToolResult:
        """Call a tool as a task, in the protocol of 2025-11-25."""
        params = types.CallToolRequestParams(name=tool, arguments=arguments, task=types.TaskMetadata(), _meta=meta)
        request = types.CallToolRequest(params=params)
        return await self.client.session.send_request(request, types.CallToolResult, progress_callback=on_progress)

    async def state(self, task: str) -> TaskState | None:
        """Ask for the state of a task; None if the answer breaks the protocol."""
        return read_task(await self._send(_GetTask(params=_TaskParams(task_id=task)), _REQUEST_SECONDS))

    async def cancel(self, task: str) -> None:
        await self._send(_CancelTask(params=_TaskParams(task_id=task)), _REQUEST_SECONDS)

    async def result(self, task: str) -> dict[str, Any]:
        """Wait for the result, in the protocol of 2025-11-25: as long as the task takes."""
        return await self._send(_TaskResult(params=_TaskParams(task_id=task)), None)

    async def answer(self, task: str, requests: Mapping[str, Any], is_stopping: Callable[[], bool]) -> None:
        """Have somebody answer what a task wants to know, and send the answers.

        A process that is stopping sends none: its questions were withdrawn, and the next process asks them again.
        """
        session = self.client.session
        answers: dict[str, Any] = {}
        required = types.InputRequiredResult.model_validate({"inputRequests": dict(requests)}, by_name=False)
        for key, request in (required.input_requests or {}).items():
            context = ClientRequestContext(session=session, request_id=key, meta=None)
            answer = await session.dispatch_input_request(context, request)
            if isinstance(answer, types.ErrorData):
                raise MCPError.from_error_data(answer)
            answers[key] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        if is_stopping():
            return
        params = _UpdateParams(task_id=task, input_responses=answers)
        await self._send(_UpdateTask(params=params), _REQUEST_SECONDS)

    async def _send(self, request: types.Request[Any, Any], seconds: float | None) -> dict[str, Any]:
        answer = await self.client.session.send_request(request, _Answer, request_read_timeout_seconds=seconds)
        return answer.model_dump(mode="json", by_alias=True, exclude_unset=True)
