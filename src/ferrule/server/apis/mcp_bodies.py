"""Results of the Model Context Protocol for the gateway's tools and calls. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ferrule.core.call import ToolResult
from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import visible_text
from ferrule.dialects.mcp_server import HANDSHAKE, MODERN, SERVER, STRUCTURED, RpcRequest
from ferrule.run.ledger.ledger import Approval

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
    message = f"Allow {visible_text(approval.tool.encode())} with {visible_text(approval.arguments)}?"
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
