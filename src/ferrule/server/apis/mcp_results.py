"""What `/mcp` says: results, elicitations and listed tools as JSON of the protocol, in both generations. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import quote

from ferrule.core.call import ToolResult
from ferrule.core.media import Media, MediaKind, media_line
from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import visible, visible_text
from ferrule.dialects.mcp_server import CORE_TASKS, HANDSHAKE, MODERN, SERVER, STRUCTURED, TASKS, RpcRequest, mapping
from ferrule.run.ledger.ledger import Approval

PAGE = 500
_TTL = 30_000
_HEADER_KEYWORD = "x-mcp-header"
# JSON Schema keywords that map names to schemas, and keywords whose values are data.
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"const", "default", "enum", "examples"})
_CAPABILITIES = {"tools": {"listChanged": False}}
_TASKS: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
_INSTRUCTIONS = "Tools of a Ferrule gateway. Calls with side effects wait for a person's approval."
CODE, CALL_ID, APPROVAL = "ferrule.dev/code", "ferrule.dev/call-id", "ferrule.dev/approval"


def initialize_result(rpc: RpcRequest) -> dict[str, Any]:
    return {
        "protocolVersion": rpc.version,
        "capabilities": {**_CAPABILITIES, "tasks": _TASKS} if rpc.version in CORE_TASKS else _CAPABILITIES,
        "serverInfo": SERVER,
        "instructions": _INSTRUCTIONS,
    }


def discover_result() -> dict[str, Any]:
    capabilities: dict[str, Any] = {**_CAPABILITIES, "extensions": {TASKS: {}}}
    versions = [*MODERN, *reversed(HANDSHAKE)]
    result = {"supportedVersions": versions, "capabilities": capabilities, "instructions": _INSTRUCTIONS}
    return {**result, "ttlMs": _TTL, "cacheScope": "public"}


def tools_list_result(rpc: RpcRequest, tools: Iterable[ToolDefinition], cursor: str = "") -> dict[str, Any]:
    """Return one page, sorted by name; the cursor is the last name of the page before."""
    remaining = sorted((tool for tool in tools if tool.name > cursor), key=lambda tool: tool.name)
    page = remaining[:PAGE]
    result: dict[str, Any] = {"tools": [_tool_view(tool, rpc) for tool in page]}
    if len(remaining) > PAGE:
        result["nextCursor"] = page[-1].name
    # Private, because other keys may use other tools.
    return {**result, "ttlMs": _TTL, "cacheScope": "private"} if rpc.is_modern else result


def tool_call_result(rpc: RpcRequest, result: ToolResult, code: str = "", **meta: str) -> dict[str, Any]:
    text = [{"type": "text", "text": result.text}] if result.text or not result.media else []
    body: dict[str, Any] = {"content": [*text, *map(_media_block, result.media)], "isError": result.is_error}
    is_structured = not isinstance(result.content, str) if rpc.is_modern else isinstance(result.content, dict)
    if is_structured and result.content is not None and rpc.version in STRUCTURED:
        body["structuredContent"] = result.content
    own = {CODE: code, CALL_ID: result.tool_call_id, **meta}
    return {**body, "_meta": {key: value for key, value in own.items() if value}}


def _media_block(media: Media) -> dict[str, Any]:
    """Return the block of an image, a recording or a file."""
    mime_type = {"mimeType": media.media_type} if media.media_type else {}
    if media.data and media.kind is not MediaKind.FILE:
        mime_type = {"mimeType": media.media_type or "application/octet-stream"}
        return {"type": media.kind.value, "data": media.data, **mime_type}
    if media.data:
        return {"type": "resource", "resource": {"uri": _uri_of(media), "blob": media.data, **mime_type}}
    if media.url:
        return {"type": "resource_link", "uri": media.url, "name": media.name or media.url, **mime_type}
    return {"type": "text", "text": media_line(media)}


def _uri_of(media: Media) -> str:
    return media.name if "://" in media.name else f"file:///{quote(media.name or 'file', errors='replace')}"


def approval_pending_result(rpc: RpcRequest, approval: Approval) -> dict[str, Any]:
    message = (
        f"requires_confirmation: {approval.tool} has side effects and waits for a person's approval ({approval.id}). "
        "Nothing was done. After approval, the same call with the same arguments runs it."
    )
    result = ToolResult(approval.call_id, approval.tool, message, is_error=True)
    return tool_call_result(rpc, result, "requires_confirmation", **{APPROVAL: approval.id})


def approval_elicitation(approval: Approval) -> dict[str, Any]:
    """Return the result of a call that asks the client's user for approval."""
    return {"inputRequests": {"approval": approval_question(approval)}, "requestState": approval.id}


def approval_question(approval: Approval) -> dict[str, Any]:
    """Return the elicitation that asks the client's user for approval. The text shows the exact bytes that will run."""
    form = {
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": "Allow exactly this call, once", "default": False}},
        "required": ["approve"],
    }
    message = f"Allow {visible(approval.tool)} with {visible_text(approval.arguments)}?"
    params = {"mode": "form", "message": message, "requestedSchema": form}
    return {"method": "elicitation/create", "params": params}


def read_approval_answer(rpc: RpcRequest) -> tuple[str, bool | None]:
    """Read the approval that a client answers, and the answer; None if its user gave none."""
    state, responses = rpc.params.get("requestState"), rpc.params.get("inputResponses")
    response = cast("dict[str, Any]", responses).get("approval") if isinstance(responses, dict) else None
    if not isinstance(state, str) or not isinstance(response, dict):
        return "", None
    return state, read_approval(cast("object", response))


def read_approval(response: object) -> bool | None:
    """Read the answer to an `approval_question`; None if the user gave none."""
    answer = mapping(response)
    match answer.get("action"):
        case "accept":
            return mapping(answer.get("content")).get("approve") is True
        case "decline":
            return False
        case _:
            return None


def _tool_view(tool: ToolDefinition, rpc: RpcRequest) -> dict[str, Any]:
    schema = {**cast("dict[str, Any]", without_header_keywords(tool.parameters)), "type": "object"}
    hints = {"readOnlyHint": not tool.side_effects, "destructiveHint": tool.side_effects}
    view = {"name": tool.name, "description": tool.description, "inputSchema": schema, "annotations": hints}
    return {**view, "execution": {"taskSupport": "optional"}} if rpc.version in CORE_TASKS else view


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
