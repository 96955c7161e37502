"""Request bodies in the shapes that real clients send: SDKs, Codex, Claude Code, opencode and pi.

The fields are those of recorded requests; texts and schemas are our own. Independent of how they are changed and sent.
"""

from collections.abc import Mapping
from typing import Any, Final

CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"
APIS: Final = (CHAT, RESPONSES, MESSAGES)

Body = dict[str, Any]

_READ: Final[Body] = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string", "description": "The file to read."},
        "offset": {"type": "number", "description": "The first line."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 9007199254740991},
    },
}
_SHELL: Final[Body] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "command": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "permissions": {"enum": ["default", "escalated"]},
        "timeout": {"type": ["integer", "null"], "exclusiveMinimum": 0},
    },
    "required": ["command"],
    "additionalProperties": False,
}
_ADD: Final[Body] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
_SCHEMAS: Final[Mapping[str, Body]] = {"read": _READ, "exec_command": _SHELL, "add": _ADD}


def _functions(*names: str, **extras: Any) -> list[Body]:
    return [
        {
            "type": "function",
            "function": {"name": name, "description": f"The tool {name}.", "parameters": _SCHEMAS[name], **extras},
        }
        for name in names
    ]


def _flat_functions(*names: str) -> list[Body]:
    return [
        {
            "type": "function",
            "name": name,
            "description": f"The tool {name}.",
            "parameters": _SCHEMAS[name],
            "strict": False,
        }
        for name in names
    ]


def _named_tools(*names: str) -> list[Body]:
    return [{"name": name, "description": f"The tool {name}.", "input_schema": _SCHEMAS[name]} for name in names]


def _call(id: str, name: str, arguments: str) -> Body:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


_CHAT_BODIES: Final[tuple[Body, ...]] = (
    # The openai SDK.
    {"messages": [{"role": "user", "content": "Say hello."}]},
    {
        "messages": [{"role": "user", "content": "Add 1 and 2."}],
        "tools": _functions("add", strict=True),
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "sum", "schema": _ADD, "strict": True}},
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
        "n": 1,
        "logit_bias": {},
        "user": "somebody",
        "metadata": {"run": "1"},
    },
    # Its older functions.
    {
        "messages": [
            {"role": "user", "content": "Add 1 and 2."},
            {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": '{"a": 1, "b": 2}'}},
            {"role": "function", "name": "add", "content": "3"},
        ],
        "functions": [{"name": "add", "description": "Adds.", "parameters": _ADD}],
        "function_call": "auto",
    },
    # pi and opencode.
    {
        "messages": [
            {"role": "system", "content": "You edit files."},
            {"role": "user", "content": [{"type": "text", "text": "Which word is in word.txt?"}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "I read it.",
                "tool_calls": [
                    _call("call_ea461d17", "read", '{"path":"word.txt"}'),
                    _call("call_ea461d18", "exec_command", '{"command": ["cat", "word.txt"], "timeout": null}'),
                ],
            },
            {"role": "tool", "content": "The word is ferrule.\n", "tool_call_id": "call_ea461d17"},
            {"role": "tool", "content": [{"type": "text", "text": "ferrule"}], "tool_call_id": "call_ea461d18"},
            {"role": "assistant", "content": "It is ferrule."},
            {"role": "user", "content": "Write it in capitals."},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        "max_completion_tokens": 1024,
        "tools": _functions("read", "exec_command", strict=False),
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    },
    # Tools of the gateway.
    {
        "messages": [{"role": "user", "content": "Try them."}],
        "ferrule": {"tools": "gateway", "wire": True},
        "max_tokens": 64,
    },
)
_RESPONSES_BODIES: Final[tuple[Body, ...]] = (
    {"input": "Say hello."},
    # Codex.
    {
        "stream": True,
        "instructions": "You edit files.",
        "input": [
            {
                "type": "message",
                "id": "msg_f2bbb9ca",
                "role": "developer",
                "content": [{"type": "input_text", "text": "The folder is /work."}],
            },
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which word is it?"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look."}]},
            {
                "type": "function_call",
                "status": "completed",
                "id": "fc_a15f7fe7",
                "name": "exec_command",
                "arguments": '{"command": "cat word.txt"}',
                "call_id": "call_9014b26d",
            },
            {"type": "function_call_output", "id": "fco_1", "call_id": "call_9014b26d", "output": "ferrule"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "ferrule", "annotations": []}],
            },
            {"role": "user", "content": "Thanks."},
        ],
        "tools": _flat_functions("exec_command", "read"),
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "00000000-0000-4000-8000-000000000000",
        "client_metadata": {"turn_id": "1"},
    },
    # The openai SDK.
    {
        "input": [{"role": "user", "content": "Add 1 and 2."}],
        "tools": _flat_functions("add"),
        "tool_choice": {"type": "function", "name": "add"},
        "text": {"format": {"type": "json_schema", "name": "sum", "schema": _ADD, "strict": True}},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 64,
        "metadata": {"run": "1"},
        "truncation": "auto",
    },
    # A server of the gateway's tools, and what an earlier response said about it.
    {
        "input": [
            {"role": "user", "content": "Try them."},
            {
                "type": "mcp_list_tools",
                "id": "mcpl_1",
                "server_label": "python",
                "tools": [{"name": "text", "input_schema": {"type": "object"}}],
            },
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "server_label": "python",
                "name": "text",
                "arguments": "{}",
                "output": "one",
                "error": None,
            },
        ],
        "tools": [{"type": "mcp", "server_label": "python", "require_approval": "never"}],
        "max_tool_calls": 3,
        "store": False,
    },
    {"input": "Try them.", "ferrule": {"tools": ["text", "deep"]}, "store": False},
)
_MESSAGES_BODIES: Final[tuple[Body, ...]] = (
    # The anthropic SDK.
    {"max_tokens": 64, "messages": [{"role": "user", "content": "Say hello."}]},
    {
        "max_tokens": 64,
        "system": "You add numbers.",
        "messages": [
            {"role": "user", "content": "Add 1 and 2."},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "toolu_458d1459", "name": "add", "input": {"a": 1, "b": 2}},
                    {"type": "tool_use", "id": "toolu_458d1460", "name": "add", "input": {"a": 3, "b": 4}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_458d1459", "content": "3", "is_error": False},
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_458d1460",
                        "content": [{"type": "text", "text": "7"}],
                    },
                ],
            },
        ],
        "tools": _named_tools("add"),
        "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": True},
        "temperature": 0.5,
        "top_k": 40,
        "stop_sequences": ["END"],
    },
    # Claude Code.
    {
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "You edit files.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Which word is in word.txt?"}]},
            {
                "role": "system",
                "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I read it.", "signature": ""},
                    {"type": "text", "text": "I read the file."},
                    {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "word.txt"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": "<error>no such file</error>",
                        "is_error": True,
                    },
                    {"type": "text", "text": "Look again."},
                ],
            },
        ],
        "tools": _named_tools("read", "exec_command"),
        "metadata": {"user_id": "somebody"},
        "thinking": {"type": "adaptive", "display": "updates"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": _ADD}},
    },
    {
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "Try them."}],
        "ferrule": {"tools": "gateway"},
        "stream": True,
    },
)

SHAPES: Final[Mapping[str, tuple[Body, ...]]] = {
    CHAT: _CHAT_BODIES,
    RESPONSES: _RESPONSES_BODIES,
    MESSAGES: _MESSAGES_BODIES,
}
"""Bodies by API, without a model: the sender names one."""
