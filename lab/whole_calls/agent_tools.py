"""The default tools of coding agents: names and schemas, without descriptions.

Facts, read in the requests that Codex CLI 0.166.0, Claude Code 2.1.325 and opencode 1.18.33 send by default. Bodies of
recorded requests can take their place (`recorded_tools`), which brings the clients' own descriptions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ferrule.core.tool import ToolDefinition

TEXT: Final = {"type": "string"}
YES: Final = {"type": "boolean"}
NUMBER: Final = {"type": "number"}
_SAFE: Final = 2**53 - 1
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": _SAFE}


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent. `content` is the argument of its tool `write` that holds a file; `others` are required too."""

    name: str
    tools: tuple[ToolDefinition, ...]
    write: str
    content: str
    others: Mapping[str, Any]

    def arguments(self, content: str) -> dict[str, Any]:
        """The arguments of a write, in the order of the schema's properties: the order that grammars keep."""
        values = {**self.others, self.content: content}
        schema = next(tool for tool in self.tools if tool.name == self.write).parameters
        return {name: values[name] for name in schema["properties"] if name in values}


def _tool(name: str, required: str, properties: Mapping[str, Any], *, is_closed: bool) -> ToolDefinition:
    closed = {"additionalProperties": False} if is_closed else {}
    schema = {"type": "object", "properties": dict(properties), "required": required.split(), **closed}
    return ToolDefinition(name, "", schema)


def _closed(name: str, required: str, /, **properties: Any) -> ToolDefinition:
    return _tool(name, required, properties, is_closed=True)


def _open(name: str, required: str, /, **properties: Any) -> ToolDefinition:
    return _tool(name, required, properties, is_closed=False)


def _words(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def _list(**properties: Any) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "array", "items": item}


_MESSAGE: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": dict.fromkeys(("audio_url", "image_url", "name", "path", "text", "type"), TEXT),
        "additionalProperties": False,
    },
}
CODEX: Final = Agent(
    "Codex",
    (
        _closed(
            "exec_command",
            "cmd",
            cmd=TEXT,
            justification=TEXT,
            login=YES,
            max_output_tokens=NUMBER,
            prefix_rule={"type": "array", "items": TEXT},
            sandbox_permissions=_words("use_default", "require_escalated"),
            shell=TEXT,
            tty=YES,
            workdir=TEXT,
            yield_time_ms=NUMBER,
        ),
        _closed("write_stdin", "session_id", chars=TEXT, max_output_tokens=NUMBER, session_id=NUMBER),
        _closed(
            "request_user_input",
            "questions",
            questions=_list(header=TEXT, id=TEXT, options=_list(label=TEXT, description=TEXT), question=TEXT),
        ),
        _closed("view_image", "path", path=TEXT),
        # Codex sends these five in a namespace.
        _closed("close_agent", "target", target=TEXT),
        _closed("resume_agent", "id", id=TEXT),
        _closed("send_input", "target", interrupt=YES, items=_MESSAGE, message=TEXT, target=TEXT),
        _closed("spawn_agent", "", fork_context=YES, items=_MESSAGE, message=TEXT, model=TEXT),
        _closed("wait_agent", "targets", targets={"type": "array", "items": TEXT}, timeout_ms=NUMBER),
        _closed("get_goal", ""),
        _closed("create_goal", "objective", objective=TEXT, token_budget={"type": "integer"}),
        _closed("update_goal", "status", status=_words("complete", "blocked", "paused")),
    ),
    write="exec_command",
    content="cmd",
    others={},
)
_EFFORT: Final = _words("low", "medium", "high", "xhigh", "max")
CLAUDE_CODE: Final = Agent(
    "Claude Code",
    (
        _closed(
            "Agent",
            "description prompt",
            description=TEXT,
            prompt=TEXT,
            subagent_type=TEXT,
            model=_words("sonnet", "opus", "haiku", "fable"),
            effort=_EFFORT,
            run_in_background=YES,
            isolation=_words("worktree", "remote"),
        ),
        _closed("Bash", "command", command=TEXT, timeout=NUMBER, description=TEXT, run_in_background=YES),
        _closed(
            "Edit",
            "file_path old_string new_string",
            file_path=TEXT,
            old_string=TEXT,
            new_string=TEXT,
            replace_all={"default": False, "type": "boolean"},
        ),
        _closed("ListAgents", "", channel={**TEXT, "maxLength": 256}, q={**TEXT, "maxLength": 256}),
        _closed(
            "Read",
            "file_path",
            file_path=TEXT,
            offset=_COUNT,
            limit={"type": "integer", "exclusiveMinimum": 0, "maximum": _SAFE},
            pages=TEXT,
        ),
        _closed(
            "ReportFindings",
            "findings",
            level=_EFFORT,
            findings={
                **_list(file=TEXT, summary=TEXT, short_summary={**TEXT, "maxLength": 60}, failure_scenario=TEXT),
                "maxItems": 32,
            },
        ),
        _closed("ScheduleWakeup", "", delaySeconds=NUMBER, reason=TEXT, prompt=TEXT, stop=YES, noop=YES),
        _closed("Skill", "skill", skill=TEXT, args=TEXT),
        _closed("ToolSearch", "query max_results", query=TEXT, max_results={"default": 5, "type": "number"}),
        _closed(
            "Workflow",
            "",
            script={**TEXT, "maxLength": 524_288},
            name=TEXT,
            title=TEXT,
            args={},
            resumeFromRunId={**TEXT, "pattern": "^wf_[a-z0-9-]{6,}$"},
        ),
        _closed("Write", "file_path content", file_path=TEXT, content=TEXT),
    ),
    write="Write",
    content="content",
    others={"file_path": "notes/plan.txt"},
)
OPENCODE: Final = Agent(
    "opencode",
    (
        _open(
            "bash",
            "command description",
            command=TEXT,
            timeout={"type": "integer", "exclusiveMinimum": 0, "maximum": _SAFE},
            workdir=TEXT,
            description=TEXT,
        ),
        _open("edit", "filePath oldString newString", filePath=TEXT, oldString=TEXT, newString=TEXT, replaceAll=YES),
        _open("glob", "pattern", pattern=TEXT, path=TEXT),
        _open("grep", "pattern", pattern=TEXT, path=TEXT, include=TEXT),
        _open("read", "filePath", filePath=TEXT, offset=_COUNT, limit=_COUNT),
        _open("skill", "name", name=TEXT),
        _open("task", "description prompt subagent_type", description=TEXT, prompt=TEXT, subagent_type=TEXT),
        _open("todowrite", "todos", todos=_list(content=TEXT, status=TEXT, priority=TEXT)),
        _open("webfetch", "url", url=TEXT, format=_words("text", "markdown", "html"), timeout=NUMBER),
        _open("write", "content filePath", content=TEXT, filePath=TEXT),
    ),
    write="write",
    content="content",
    others={"filePath": "notes/plan.txt"},
)
AGENTS: Final = (CODEX, CLAUDE_CODE, OPENCODE)


def with_recorded_tools(agent: Agent, folder: Path) -> Agent:
    """The agent with the tools of the first recorded request under FOLDER that offers its tool for writing.

    A recording is a JSON file with the request's body, or with the body under "body".
    """
    for path in sorted(folder.rglob("*.json")):
        recording = json.loads(path.read_text(encoding="utf-8"))
        body = recording.get("body") or recording
        tools = tuple(_functions(body.get("tools") or ()))
        if any(tool.name == agent.write and agent.content in tool.properties for tool in tools):
            return replace(agent, tools=tools)
    return agent


def _functions(tools: Sequence[Any]) -> list[ToolDefinition]:
    """The functions of a request in any of the three APIs; those in a namespace by their bare names."""
    functions: list[ToolDefinition] = []
    for tool in tools:
        if tool.get("type") == "namespace":
            functions += _functions(tool["tools"])
            continue
        function = tool.get("function", tool)
        schema = function.get("parameters") or function.get("input_schema")
        if schema is not None:
            functions.append(ToolDefinition(function["name"], function.get("description", ""), schema))
    return functions
