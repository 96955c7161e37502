"""What an MCP server answered to a call, as an outcome. Plain JSON in; it knows neither the SDK nor a connection.

Structured content comes first, texts are joined, and what is no text (images, sound, files) is described, not poured
into a model's context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import SchemaError, ToolError
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for

INVALID_PARAMS, METHOD_NOT_FOUND, CONNECTION_CLOSED, REQUEST_TIMEOUT = -32602, -32601, -32000, -32001
# Ours, for what the transports find out. Outside of what JSON-RPC and MCP reserve.
NOT_SENT, GONE, TOO_LARGE = 71_001, 71_002, 71_003
_SHOWN = 2_000

_OWN: Mapping[int, Callable[[str], Outcome]] = {
    NOT_SENT: NotDelivered,
    GONE: Unknown,
    TOO_LARGE: lambda told: Answered(told, is_error=True, code="too_large"),
}
_BAD_REQUEST = frozenset({INVALID_PARAMS, METHOD_NOT_FOUND})
# How the SDK words an answer that can never come; a server may use the same number for errors of its own.
_LOST = ("Connection closed", "SSE stream ended", "SSE stream failed", "Session terminated")
_LARGE_EVENT = "byte limit"


def outcome_of_error(code: int, message: str, *, is_ours: bool) -> Outcome:
    """What a JSON-RPC error means for the call. `is_ours`: the transport made it; a server cannot claim that."""
    told = message[:_SHOWN]
    if is_ours and code in _OWN:
        return _OWN[code](told)
    if code in _BAD_REQUEST:
        return Answered(told, is_error=True, code="bad_request")
    if code == CONNECTION_CLOSED and told.startswith(_LOST):
        if _LARGE_EVENT in told:
            return Answered(told, is_error=True, code="too_large")
        return Unknown(told)
    if code == REQUEST_TIMEOUT:
        return Unknown(told, code="timeout")
    return Answered(told, is_error=True, code=ToolError.code)


def outcome_of_result(result: Mapping[str, Any], output_schema: Mapping[str, Any] | None = None) -> Outcome:
    """The answer in a result. Structured content that does not fit the tool's own schema is an error that says so."""
    is_error = result.get("isError") is True
    blocks = [_described(block) for block in cast("list[Any]", result.get("content") or [])]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    others = [block for block in blocks if block["type"] != "text"]
    has_structure = result.get("structuredContent") is not None
    if has_structure and not is_error and output_schema is not None:
        told = _misfit(result["structuredContent"], output_schema)
        if told:
            return Answered(told, is_error=True, code="bad_answer")
    content: Any = result["structuredContent"] if has_structure else "\n".join(texts)
    if others:
        content = {"structured": content, "content": others} if has_structure else blocks
    return Answered(content, is_error, ToolError.code if is_error else "")


def _misfit(value: object, schema: Mapping[str, Any]) -> str:
    try:
        faults = checker_for(admit(dict(schema))).faults(value)
    except SchemaError:
        # A schema that is not admitted cannot be checked with; the answer stands by itself.
        return ""
    return f"the answer does not fit the tool's own output schema: {'; '.join(map(str, faults[:5]))}" if faults else ""


def _described(block: object) -> dict[str, Any]:
    held = _mapping(block)
    match held.get("type"):
        case "text":
            return {"type": "text", "text": str(held.get("text", ""))}
        case "image" | "audio" as kind:
            return {"type": kind, **_kept(held, "mimeType"), **_not_shown(held.get("data"))}
        case "resource":
            inner = _mapping(held.get("resource"))
            text = inner.get("text")
            body = {"text": text} if isinstance(text, str) else _not_shown(inner.get("blob"))
            return {"type": "resource", **_kept(inner, "uri", "mimeType"), **body}
        case "resource_link":
            return {"type": "resource_link", **_kept(held, "uri", "name", "title", "description", "mimeType", "size")}
        case _:
            return {"type": "unknown", **_not_shown(None)}


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _kept(held: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: held[key] for key in keys if held.get(key) is not None}


def _not_shown(base64_text: object) -> dict[str, Any]:
    size = {"bytes": len(base64_text.rstrip("=")) * 3 // 4} if isinstance(base64_text, str) else {}
    return {**size, "note": "not shown"}
