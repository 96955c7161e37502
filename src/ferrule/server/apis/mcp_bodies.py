"""The gateway's tools and what became of calls, in the shapes of the Model Context Protocol. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ferrule.core.call import ToolResult
from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import exactly
from ferrule.dialects.mcp_server import HANDSHAKE, MODERN, SERVER, STRUCTURED, Call
from ferrule.run.ledger.ledger import Approval

PAGE = 500
_TTL = 30_000
_HEADER_MARK = "x-mcp-header"
# Of JSON Schema: what holds schemas by names, and what holds values and no schema.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"const", "default", "enum", "examples"})
_CAPABILITIES = {"tools": {"listChanged": False}}
_WORDS = "Tools of a Ferrule gateway. Calls that change the world wait for a person's leave."
CODE, CALL_ID, APPROVAL = "ferrule.dev/code", "ferrule.dev/call-id", "ferrule.dev/approval"


def initialized(call: Call) -> dict[str, Any]:
    return {
        "protocolVersion": call.version,
        "capabilities": _CAPABILITIES,
        "serverInfo": SERVER,
        "instructions": _WORDS,
    }


def discovered() -> dict[str, Any]:
    versions = [*MODERN, *reversed(HANDSHAKE)]
    told = {"supportedVersions": versions, "capabilities": _CAPABILITIES, "instructions": _WORDS}
    return {**told, "ttlMs": _TTL, "cacheScope": "public"}


def listed(call: Call, tools: Iterable[ToolDefinition], cursor: str = "") -> dict[str, Any]:
    """One page, by name; the cursor is the last name of the page before."""
    behind = sorted((tool for tool in tools if tool.name > cursor), key=lambda tool: tool.name)
    page = behind[:PAGE]
    told: dict[str, Any] = {"tools": [_described(tool) for tool in page]}
    if len(behind) > PAGE:
        told["nextCursor"] = page[-1].name
    # Private: what one key may use says nothing about another's.
    return {**told, "ttlMs": _TTL, "cacheScope": "private"} if call.is_modern else told


def called(call: Call, result: ToolResult, code: str = "", **meta: str) -> dict[str, Any]:
    told: dict[str, Any] = {"content": [{"type": "text", "text": result.text}], "isError": result.is_error}
    is_structured = not isinstance(result.content, str) if call.is_modern else isinstance(result.content, dict)
    if is_structured and result.content is not None and call.version in STRUCTURED:
        told["structuredContent"] = result.content
    own = {CODE: code, CALL_ID: result.tool_call_id, **meta}
    return {**told, "_meta": {key: value for key, value in own.items() if value}}


def waits(call: Call, approval: Approval) -> dict[str, Any]:
    words = (
        f"requires_confirmation: {approval.tool} changes the world and waits for a person's leave: approval "
        f"{approval.id}. Nothing was done. When it is given, the same call with the same arguments runs it."
    )
    result = ToolResult(approval.call_id, approval.tool, words, is_error=True)
    return called(call, result, "requires_confirmation", **{APPROVAL: approval.id})


def question(approval: Approval) -> dict[str, Any]:
    """Asks the client's user for leave. What he reads is drawn from the very bytes that will run."""
    form = {
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": "Allow exactly this call, once", "default": False}},
        "required": ["approve"],
    }
    message = f"Allow {exactly(approval.tool.encode())} with {exactly(approval.arguments)}?"
    params = {"mode": "form", "message": message, "requestedSchema": form}
    return {"inputRequests": {"leave": {"method": "elicitation/create", "params": params}}, "requestState": approval.id}


def answer_in(call: Call) -> tuple[str, bool | None]:
    """The approval that a client brings an answer for, and the answer: None where its user gave none."""
    state, given = call.params.get("requestState"), call.params.get("inputResponses")
    leave = cast("dict[str, Any]", given).get("leave") if isinstance(given, dict) else None
    if not isinstance(state, str) or not isinstance(leave, dict):
        return "", None
    held = cast("dict[str, Any]", leave)
    content = held.get("content")
    said = cast("dict[str, Any]", content).get("approve") if isinstance(content, dict) else None
    match held.get("action"):
        case "accept":
            return state, said is True
        case "decline":
            return state, False
        case _:
            return state, None


def _described(tool: ToolDefinition) -> dict[str, Any]:
    schema = {**cast("dict[str, Any]", without_header_marks(tool.parameters)), "type": "object"}
    hints = {"readOnlyHint": not tool.side_effects, "destructiveHint": tool.side_effects}
    return {"name": tool.name, "description": tool.description, "inputSchema": schema, "annotations": hints}


def without_header_marks(schema: object) -> object:
    """A tool's own server may want arguments in headers too; that is between it and us, and not our clients' affair."""
    if isinstance(schema, list):
        return [without_header_marks(one) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    held = cast("Mapping[str, Any]", schema)
    return {key: _part(key, value) for key, value in held.items() if key != _HEADER_MARK}


def _part(key: str, value: Any) -> Any:
    if key in _VALUES:
        return value
    if key in _NAMED and isinstance(value, dict):
        return {name: without_header_marks(one) for name, one in cast("dict[str, Any]", value).items()}
    return without_header_marks(value)
