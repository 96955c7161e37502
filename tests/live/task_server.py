"""A server of the MCP SDK whose tool is a task: `task_server.py FOLDER stdio`, or `... http PORT`. A test leads it.

Its tasks are files in FOLDER, so they outlive the server. Each has the number of steps that there are files `step-*`,
asks for a colour while there is a file `ask`, and ends when there is a file `finish`. A file `interval` says how often
it wants to be asked, in milliseconds. `started.jsonl` and `cancelled.jsonl` have a line for each task that was begun or
cancelled. The extension is that of 2026-07-28.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolRequestParams, RequestParams, ToolAnnotations

FOLDER = Path(sys.argv[1])
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which colour?",
        "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
    },
}


class TaskParams(RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


def note(name: str, value: Any) -> None:
    with (FOLDER / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def poll_interval() -> int:
    file = FOLDER / "interval"
    return int(file.read_text(encoding="utf-8")) if file.exists() else 50


def state_of(id: str) -> dict[str, Any]:
    file = FOLDER / f"task-{id}.json"
    if not file.exists():
        raise MCPError(INVALID_PARAMS, "there is no such task")
    task = json.loads(file.read_text(encoding="utf-8"))
    steps = len(list(FOLDER.glob("step-*")))
    now = f"2026-11-01T00:00:{steps:02}Z"
    state = {"taskId": id, "createdAt": "2026-11-01T00:00:00Z", "lastUpdatedAt": now, "ttlMs": None}
    state |= {"status": "working", "statusMessage": f"step {steps}", "pollIntervalMs": poll_interval()}
    answer = FOLDER / f"answer-{id}.json"
    if (FOLDER / f"cancelled-{id}").exists():
        state |= {"status": "cancelled"}
    elif (FOLDER / "ask").exists() and not answer.exists():
        state |= {"status": "input_required", "inputRequests": {"colour": QUESTION}}
    elif (FOLDER / "fail").exists():
        state |= {"status": "failed", "error": {"code": -32000, "message": "the printer burns"}}
    elif (FOLDER / "finish").exists():
        said = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {}
        text = f"{task['topic']} is done {said}"
        state |= {"status": "completed", "result": {"content": [{"type": "text", "text": text}]}}
    return state


class Tasks(Extension):
    identifier = "io.modelcontextprotocol/tasks"

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/cancel", TaskParams, self.cancel),
            MethodBinding("tasks/update", UpdateParams, self.update),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        if not params.name.startswith("research"):
            return await call_next(ctx)
        id = secrets.token_hex(8)
        arguments = params.arguments or {}
        (FOLDER / f"task-{id}.json").write_text(json.dumps(arguments), encoding="utf-8")
        note("started", {"id": id, **arguments})
        return {"resultType": "task", **state_of(id)}

    async def get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        note("polled", params.task_id)
        return {"resultType": "complete", **state_of(params.task_id)}

    async def cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        state_of(params.task_id)
        (FOLDER / f"cancelled-{params.task_id}").touch()
        note("cancelled", params.task_id)
        return {"resultType": "complete"}

    async def update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        answer = params.input_responses["colour"]
        (FOLDER / f"answer-{params.task_id}.json").write_text(json.dumps(answer["content"]), encoding="utf-8")
        return {"resultType": "complete"}


server = MCPServer("tasks", extensions=[Tasks()])


@server.tool()
def research(topic: str) -> str:
    """Takes long."""
    raise AssertionError("it is a task")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def research_only(topic: str) -> str:
    """Takes long, and changes nothing."""
    raise AssertionError("it is a task")


@server.tool()
def greet() -> str:
    """Is no task."""
    return "hello"


if sys.argv[2] == "http":
    server.run("streamable-http", port=int(sys.argv[3]))
else:
    server.run()
