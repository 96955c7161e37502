"""Requests in the shapes that Codex 0.166.0 sends in its three configurations, with texts of our own."""

from __future__ import annotations

from typing import Any

Item = dict[str, Any]

PATCH_GRAMMAR = 'start: "begin\\n" LINE+ "end"\nLINE: /[+-][a-z ]*\\n/'
PATCH = "begin\n+one\n-two\nend"


def function(name: str, *parameters: str, **more: Any) -> Item:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    schema = {"type": "object", "properties": properties, "required": list(parameters), "additionalProperties": False}
    return {
        "type": "function",
        "name": name,
        "description": f"Does {name}.",
        "strict": False,
        **more,
        "parameters": schema,
    }


def namespace(name: str, *tools: Item, description: str = "") -> Item:
    return {"type": "namespace", "name": name, "description": description, "tools": list(tools)}


def custom(name: str, syntax: str = "lark", definition: str = PATCH_GRAMMAR) -> Item:
    format = {"type": "grammar", "syntax": syntax, "definition": definition}
    return {"type": "custom", "name": name, "description": f"Does {name}.", "format": format}


def message(role: str, *texts: str) -> Item:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "id": f"msg_{len(texts)}", "role": role, "content": content}


def call(id: str, name: str, arguments: str, **more: Any) -> Item:
    head = {"type": "function_call", "status": "completed", "id": f"fc_{id}", "call_id": id}
    return {**head, "name": name, "arguments": arguments, **more}


def output(id: str, value: Any, kind: str = "function_call_output") -> Item:
    return {"type": kind, "id": f"o_{id}", "call_id": id, "output": value}


TEXTS = [{"type": "input_text", "text": "Took 0.1 seconds\n"}, {"type": "input_text", "text": "3"}]
PROMPT = [
    message("developer", "You edit files."),
    message("developer", "Here: a", "and b"),
    message("user", "Read it."),
]
EXEC, STDIN = function("exec_command", "cmd"), function("write_stdin", "chars")
WEB = {"type": "web_search", "external_web_access": False}
SEARCH = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "number"}},
        "required": ["query"],
        "additionalProperties": False,
    },
}
AGENTS = namespace("agents_v1", function("close", "target"), function("spawn", "message"), description="Other agents.")
TINY = namespace("mcp__tiny", function("total", "x", "y"), function("photo"), description="Tools of tiny.")
FOUND = namespace("mcp__tiny", function("total", "x", "y", defer_loading=True), description="Tools of tiny.")
COMMON = {
    "stream": True,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "00000000-0000-4000-8000-000000000000",
    "client_metadata": {"session_id": "00000000-0000-4000-8000-000000000000"},
}
UNKNOWN_MODEL = {**COMMON, "model": "m", "reasoning": {"summary": "auto"}, "tools": [EXEC, STDIN, AGENTS, TINY, WEB]}
KNOWN_MODEL = {
    **COMMON,
    "model": "gpt-5.5",
    "reasoning": {"effort": "medium"},
    "text": {"verbosity": "low"},
    "tools": [EXEC, STDIN, custom("apply_patch"), SEARCH, {**WEB, "search_content_types": ["text", "image"]}],
}
CODE_MODEL = {
    **COMMON,
    "model": "gpt-6.1-sol",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low", "context": "all_turns"},
}
ADDITIONAL = {
    "type": "additional_tools",
    "id": "at_1",
    "role": "developer",
    "tools": [
        namespace("functions", custom("exec", "regex", "[a-z ]+"), function("wait", "cell_id")),
        namespace("clock", function("sleep", "duration_ms"), description="Tools about time."),
        namespace("collaboration", function("send", "message"), description="Other agents."),
    ],
}
NESTED_CALLS = [
    call("c1", "total", '{"x": "1", "y": "2"}', namespace="mcp__tiny"),
    call("c2", "photo", "{}", namespace="mcp__tiny"),
    output("c1", TEXTS),
    output("c2", "no photo"),
]
CUSTOM_CALL = [
    {"type": "custom_tool_call", "id": "x1", "status": "completed", "call_id": "c1", "name": "exec", "input": "run it"},
    output("c1", TEXTS, "custom_tool_call_output"),
]
SEARCH_CALL = [
    {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "c1",
        "status": "completed",
        "execution": "client",
        "arguments": {"query": "adds", "limit": 5},
    },
    {
        "type": "tool_search_output",
        "id": "tso_1",
        "call_id": "c1",
        "status": "completed",
        "execution": "client",
        "tools": [FOUND],
    },
]
REQUESTS: dict[str, dict[str, Any]] = {
    "unknown model": {**UNKNOWN_MODEL, "input": PROMPT},
    "unknown model, calls": {**UNKNOWN_MODEL, "input": [*PROMPT, *NESTED_CALLS]},
    "known model": {**KNOWN_MODEL, "input": PROMPT},
    "known model, search": {**KNOWN_MODEL, "input": [*PROMPT, *SEARCH_CALL]},
    "code model": {**CODE_MODEL, "input": [ADDITIONAL, *PROMPT]},
    "code model, calls": {**CODE_MODEL, "input": [ADDITIONAL, *PROMPT, *CUSTOM_CALL]},
}
