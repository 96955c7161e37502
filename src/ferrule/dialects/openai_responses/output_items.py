"""Output items as they begin. Each id is made of the response's id and the item's index, so it is reproducible."""

from __future__ import annotations

from typing import Any

from ferrule.core.call import ToolCall
from ferrule.dialects.openai_responses.client_tools import ClientTool
from ferrule.dialects.openai_responses.hosted_tools import HostedTool

UNKNOWN_LABEL = "ferrule"
"""The label of a tool that was removed from the gateway after its call."""


def message_item(response: str, index: int) -> dict[str, Any]:
    head = {"id": f"msg_{response}_{index}", "type": "message", "status": "in_progress"}
    return {**head, "role": "assistant", "content": []}


def reasoning_item(response: str, index: int) -> dict[str, Any]:
    head = {"id": f"rs_{response}_{index}", "type": "reasoning", "status": "in_progress"}
    return {**head, "summary": [], "content": []}


def call_item(response: str, index: int, call_id: str, name: str, tool: ClientTool | None = None) -> dict[str, Any]:
    """`tool` is what the caller knows the tool as, unless that is the model's name alone."""
    head = {"id": f"fc_{response}_{index}", "type": "function_call", "status": "in_progress"}
    return {**head, "call_id": call_id, **_client_fields(name, tool), "arguments": ""}


def custom_item(response: str, index: int, call_id: str, tool: ClientTool) -> dict[str, Any]:
    head = {"id": f"ctc_{response}_{index}", "type": "custom_tool_call", "status": "in_progress"}
    return {**head, "call_id": call_id, **_client_fields(tool.name, tool), "input": ""}


def search_item(response: str, index: int, call_id: str) -> dict[str, Any]:
    head = {"id": f"tsc_{response}_{index}", "type": "tool_search_call", "status": "in_progress"}
    return {**head, "call_id": call_id, "execution": "client", "arguments": {}}


def server_search_item(response: str, index: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """The call of a search that the server answers."""
    head = {"id": f"tsc_{response}_{index}", "type": "tool_search_call", "status": "in_progress"}
    return {**head, "call_id": None, "execution": "server", "arguments": arguments}


def search_output_item(response: str, index: int) -> dict[str, Any]:
    head = {"id": f"tso_{response}_{index}", "type": "tool_search_output", "status": "in_progress"}
    return {**head, "call_id": None, "execution": "server", "tools": []}


def hosted_call_item(response: str, index: int, name: str, tool: HostedTool | None, approval: str) -> dict[str, Any]:
    head = {"id": f"mcp_{response}_{index}", "type": "mcp_call", "status": "in_progress"}
    empty = {"arguments": "", "output": None, "error": None}
    return {**head, **_tool_fields(name, tool), **empty, "approval_request_id": approval or None}


def approval_item(response: str, index: int, call: ToolCall, tool: HostedTool | None, approval: str) -> dict[str, Any]:
    """`approval` becomes the item's id, because the client answers with it."""
    head = {"id": approval or f"mcpr_{response}_{index}", "type": "mcp_approval_request"}
    return {**head, **_tool_fields(call.name, tool), "arguments": call.function.arguments}


def list_item(response: str, index: int, label: str) -> dict[str, Any]:
    return {
        "id": f"mcpl_{response}_{index}",
        "type": "mcp_list_tools",
        "server_label": label,
        "tools": [],
        "error": None,
    }


def failure_of(message: str) -> dict[str, Any]:
    """Return the error of a tool call."""
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": message}]}


def _client_fields(name: str, tool: ClientTool | None) -> dict[str, Any]:
    if tool is None:
        return {"name": name}
    return {"name": tool.name, **({"namespace": tool.namespace} if tool.namespace else {})}


def _tool_fields(name: str, tool: HostedTool | None) -> dict[str, Any]:
    return {"server_label": tool.label if tool else UNKNOWN_LABEL, "name": tool.client_name if tool else name}
