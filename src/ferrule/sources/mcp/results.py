"""Converts an MCP server's answer to a call into an outcome. The input is plain JSON; no SDK, no connection.

Structured content comes first and texts are joined. Images, audio and binary resources become `media` of the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ferrule.core.media import Media
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import DefinitionError, SchemaError, ToolError
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for

INVALID_PARAMS, METHOD_NOT_FOUND, CONNECTION_CLOSED, REQUEST_TIMEOUT = -32602, -32601, -32000, -32001
# Error codes of our transports, outside the ranges that JSON-RPC and MCP reserve.
NOT_SENT, CONNECTION_LOST, TOO_LARGE = 71_001, 71_002, 71_003
_MAX_MESSAGE = 2_000

_TRANSPORT_OUTCOMES: Mapping[int, Callable[[str], Outcome]] = {
    NOT_SENT: NotDelivered,
    CONNECTION_LOST: Unknown,
    TOO_LARGE: lambda message: Answered(message, is_error=True, code="too_large"),
}
_BAD_REQUEST = frozenset({INVALID_PARAMS, METHOD_NOT_FOUND})
# The SDK's messages for an answer that can never come. A server may use the same code for its own errors, so the text
# decides.
_CONNECTION_LOST_TEXTS = ("Connection closed", "SSE stream ended", "SSE stream failed", "Session terminated")
_TOO_LARGE_TEXT = "byte limit"


def outcome_of_error(code: int, message: str, *, is_from_transport: bool) -> Outcome:
    """The outcome of a JSON-RPC error. `is_from_transport` means that our transport raised it, not the server."""
    text = message[:_MAX_MESSAGE]
    if is_from_transport and code in _TRANSPORT_OUTCOMES:
        return _TRANSPORT_OUTCOMES[code](text)
    if code in _BAD_REQUEST:
        return Answered(text, is_error=True, code="bad_request")
    if code == CONNECTION_CLOSED and text.startswith(_CONNECTION_LOST_TEXTS):
        if _TOO_LARGE_TEXT in text:
            return Answered(text, is_error=True, code="too_large")
        return Unknown(text)
    if code == REQUEST_TIMEOUT:
        return Unknown(text, code="timeout")
    return Answered(text, is_error=True, code=ToolError.code)


def outcome_of_result(result: Mapping[str, Any], output_schema: Mapping[str, Any] | None = None) -> Outcome:
    """The outcome of a tool result. Structured content that does not match the tool's output schema is an error."""
    is_error = result.get("isError") is True
    given = cast("list[Any]", result.get("content") or [])
    found = [_media(block) for block in given]
    media = tuple(one for one in found if one is not None)
    blocks = [_describe_block(block) for block, one in zip(given, found, strict=True) if one is None]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    others = [block for block in blocks if block["type"] != "text"]
    has_structure = result.get("structuredContent") is not None
    if has_structure and not is_error and output_schema is not None:
        mismatch = _schema_mismatch(result["structuredContent"], output_schema)
        if mismatch:
            return Answered(mismatch, is_error=True, code="bad_answer")
    content: Any = result["structuredContent"] if has_structure else "\n".join(texts)
    if others:
        content = {"structured": content, "content": others} if has_structure else blocks
    return Answered(content, is_error, ToolError.code if is_error else "", media)


def _schema_mismatch(value: object, schema: Mapping[str, Any]) -> str:
    try:
        faults = checker_for(admit(dict(schema))).faults(value)
    except SchemaError:
        # An invalid schema cannot validate anything, so the answer is accepted as it is.
        return ""
    return f"the answer does not fit the tool's own output schema: {'; '.join(map(str, faults[:5]))}" if faults else ""


def _media(block: object) -> Media | None:
    """The image, recording or file of a block; None for any other block, and for data that is damaged."""
    fields = _mapping(block)
    kind = fields.get("type")
    inner = _mapping(fields.get("resource")) if kind == "resource" else fields
    data = inner.get("blob" if kind == "resource" else "data")
    if kind not in ("image", "audio", "resource") or not isinstance(data, str) or not data:
        return None
    media_type = str(inner.get("mimeType") or "")
    if kind == "resource":
        beginning = media_type.partition("/")[0]
        kind = beginning if beginning in ("image", "audio") else "file"
    try:
        return Media(kind, media_type, data=data, name=str(inner.get("uri") or ""))
    except DefinitionError:
        # It is described, as other content that cannot be carried is.
        return None


def _describe_block(block: object) -> dict[str, Any]:
    fields = _mapping(block)
    match fields.get("type"):
        case "text":
            return {"type": "text", "text": str(fields.get("text", ""))}
        case "image" | "audio" as kind:
            return {"type": kind, **_select(fields, "mimeType"), **_placeholder(fields.get("data"))}
        case "resource":
            inner = _mapping(fields.get("resource"))
            text = inner.get("text")
            body = {"text": text} if isinstance(text, str) else _placeholder(inner.get("blob"))
            return {"type": "resource", **_select(inner, "uri", "mimeType"), **body}
        case "resource_link":
            return {
                "type": "resource_link",
                **_select(fields, "uri", "name", "title", "description", "mimeType", "size"),
            }
        case _:
            return {"type": "unknown", **_placeholder(None)}


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _select(fields: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: fields[key] for key in keys if fields.get(key) is not None}


def _placeholder(base64_text: object) -> dict[str, Any]:
    size = {"bytes": len(base64_text.rstrip("=")) * 3 // 4} if isinstance(base64_text, str) else {}
    return {**size, "note": "not shown"}
