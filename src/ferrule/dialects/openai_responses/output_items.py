"""Output items as they are when they begin. The id of each is made of the response's and its place: always the same."""

from __future__ import annotations

from typing import Any

from ferrule.core.call import ToolCall
from ferrule.dialects.openai_responses.hosted_tools import HostedTool

UNKNOWN_LABEL = "ferrule"
"""Of a tool that the gateway runs and no longer knows: it was taken away since its call was made."""


def message_item(response: str, at: int) -> dict[str, Any]:
    head = {"id": f"msg_{response}_{at}", "type": "message", "status": "in_progress"}
    return {**head, "role": "assistant", "content": []}


def reasoning_item(response: str, at: int) -> dict[str, Any]:
    head = {"id": f"rs_{response}_{at}", "type": "reasoning", "status": "in_progress"}
    return {**head, "summary": [], "content": []}


def call_item(response: str, at: int, call_id: str, name: str) -> dict[str, Any]:
    head = {"id": f"fc_{response}_{at}", "type": "function_call", "status": "in_progress"}
    return {**head, "call_id": call_id, "name": name, "arguments": ""}


def hosted_call_item(response: str, at: int, name: str, tool: HostedTool | None, approval: str) -> dict[str, Any]:
    head = {"id": f"mcp_{response}_{at}", "type": "mcp_call", "status": "in_progress"}
    nothing_yet = {"arguments": "", "output": None, "error": None}
    return {**head, **_named(name, tool), **nothing_yet, "approval_request_id": approval or None}


def approval_item(response: str, at: int, call: ToolCall, tool: HostedTool | None, approval: str) -> dict[str, Any]:
    """`approval` is what the client answers to, and so its id."""
    head = {"id": approval or f"mcpr_{response}_{at}", "type": "mcp_approval_request"}
    return {**head, **_named(call.name, tool), "arguments": call.function.arguments}


def list_item(response: str, at: int, label: str) -> dict[str, Any]:
    return {"id": f"mcpl_{response}_{at}", "type": "mcp_list_tools", "server_label": label, "tools": [], "error": None}


def failure_of(words: str) -> dict[str, Any]:
    """What a tool said went wrong."""
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": words}]}


def _named(name: str, tool: HostedTool | None) -> dict[str, Any]:
    return {"server_label": tool.label if tool else UNKNOWN_LABEL, "name": tool.told_name if tool else name}
