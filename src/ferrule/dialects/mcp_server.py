"""Codec for the server side of the Model Context Protocol over HTTP: bytes to values, values to JSON.

It supports both generations of the protocol: the older versions with an `initialize` handshake, and 2026-07-28, in
which every request carries its version and capabilities (called "modern" here).

This is not the SDK's server, because that is an application of its own: it brings its own routes, sessions, tasks and
validation, checks keys itself, and answers before our code runs. The gateway has one authentication, one deadline for
each answer and one ledger behind each call, so the protocol must be a codec like the other dialects. A server of tools
needs only a few methods, and the rules of 2026-07-28 for headers and `_meta`.

No IO and no clock. Which tools a client may see, and the result of a call, are passed in. The behaviour follows the
packages `mcp` and `mcp_types` 2.3.0, whose client is tested against this one in both generations (tests/live).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import loads

MODERN = ("2026-07-28",)
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STRUCTURED = frozenset({"2025-06-18", "2025-11-25", *MODERN})
"""The versions whose results may contain structured content."""

CORE_TASKS = frozenset({"2025-11-25"})
"""The versions in which tasks are part of the protocol; in 2026-07-28 they are the extension `TASKS`."""
TASKS = "io.modelcontextprotocol/tasks"

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR, REFUSED = -32603, -32000
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
_STATUS = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}
# Clients of the handshake versions read the body only with status 200; an invalid request has no result at all.
_STATUS_HANDSHAKE = {PARSE_ERROR: 400, INVALID_REQUEST: 400, UNSUPPORTED_VERSION: 400}

_META = "io.modelcontextprotocol/"
_VERSION, _CAPABILITIES, _SERVER = f"{_META}protocolVersion", f"{_META}clientCapabilities", f"{_META}serverInfo"
_NAME_PARAMS = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
RequestId = int | str


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """A JSON-RPC request. `version` is the protocol's; `capabilities` are the client's, if the request has them."""

    id: RequestId
    method: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: str = HANDSHAKE[-1]
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_modern(self) -> bool:
        return self.version in MODERN

    @property
    def meta(self) -> Mapping[str, Any]:
        return mapping(self.params.get("_meta"))

    @property
    def progress_token(self) -> RequestId | None:
        token = self.meta.get("progressToken")
        return token if _is_id(token) else None

    @property
    def supports_forms(self) -> bool:
        """Whether the client can show its user a form during a call. Without an explicit mode, it can."""
        elicitation = self.capabilities.get("elicitation")
        return self.is_modern and isinstance(elicitation, dict) and ("form" in elicitation or not elicitation)

    @property
    def supports_tasks(self) -> bool:
        """Whether the client takes a task as the answer to any call."""
        extensions = mapping(self.capabilities.get("extensions"))
        return self.is_modern and isinstance(extensions.get(TASKS), dict)

    @property
    def wants_task(self) -> bool:
        """Whether the client makes this call a task, as clients of 2025-11-25 do."""
        return self.version in CORE_TASKS and isinstance(self.params.get("task"), dict)


@dataclass(frozen=True, slots=True)
class RpcNotification:
    """A notification: no answer is expected."""

    method: str


@dataclass(frozen=True, slots=True)
class RpcError:
    """A JSON-RPC error; `status` is the HTTP status to send it with."""

    code: int
    message: str
    id: RequestId | None = None
    data: Mapping[str, Any] | None = None
    is_modern: bool = True

    @property
    def status(self) -> int:
        return _STATUS.get(self.code, 400) if self.is_modern else _STATUS_HANDSHAKE.get(self.code, 200)

    def as_dict(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = dict(self.data)
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


def read_message(body: bytes, headers: Mapping[str, str]) -> RpcRequest | RpcNotification | RpcError:
    """Read the one message in a request body. `headers` have lower-case names."""
    # Trailing white space does not belong to a header's value, but not every server strips it.
    headers = {name: value.strip(" \t") for name, value in headers.items()}
    header = headers.get("mcp-protocol-version")
    is_modern = header is not None and header not in HANDSHAKE
    try:
        body_json = loads(body.decode())
    except (ValueError, RecursionError):
        return RpcError(PARSE_ERROR, "the body is not JSON", is_modern=is_modern)
    message = mapping(body_json)
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    is_sound = message.get("jsonrpc") == "2.0" and isinstance(method, str) and isinstance(params, dict)
    if not is_sound or ("id" in message and not _is_id(id)):
        problem = "the body is not one JSON-RPC request or notification"
        return RpcError(INVALID_REQUEST, problem, id if _is_id(id) else None, is_modern=is_modern)
    request = RpcRequest(
        cast("RequestId", id), cast("str", method), cast("dict[str, Any]", params), header or HANDSHAKE[-1]
    )
    if "id" not in message:
        is_known = header is None or header in HANDSHAKE or header in MODERN
        return RpcNotification(request.method) if is_known else _unsupported_version(header or "", None)
    if is_modern or _VERSION in request.meta:
        return _check_modern(request, headers)
    return _check_handshake(request)


def result_message(request: RpcRequest, result: Mapping[str, Any], kind: str = "complete") -> dict[str, Any]:
    """Return the answer to a request. In 2026-07-28 it also carries its type and the server."""
    content = dict(result)
    if request.is_modern:
        content = {"resultType": kind, **content, "_meta": {**mapping(content.get("_meta")), _SERVER: SERVER}}
    return {"jsonrpc": "2.0", "id": request.id, "result": content}


def error_for(request: RpcRequest, code: int, message: str, data: Mapping[str, Any] | None = None) -> RpcError:
    return RpcError(code, message, request.id, data, request.is_modern)


def progress_notification(token: RequestId, done: float, total: float | None, message: str) -> dict[str, Any]:
    params: dict[str, Any] = {"progressToken": token, "progress": done}
    if total is not None:
        params["total"] = total
    if message:
        params["message"] = message
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


SERVER = {"name": "ferrule", "title": "Ferrule gateway", "version": "1"}


def mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _check_handshake(request: RpcRequest) -> RpcRequest | RpcError:
    if request.method != "initialize":
        return request
    version = request.params.get("protocolVersion")
    if not isinstance(version, str):
        return RpcError(INVALID_PARAMS, "params.protocolVersion must be a string", request.id, is_modern=False)
    return RpcRequest(request.id, request.method, request.params, version if version in HANDSHAKE else HANDSHAKE[-1])


def _check_modern(request: RpcRequest, headers: Mapping[str, str]) -> RpcRequest | RpcError:
    """Check the rules of 2026-07-28, in order: the required `_meta`, and that the headers match the body."""
    missing = [key for key in (_VERSION, _CAPABILITIES) if key not in request.meta]
    if missing:
        return RpcError(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}", request.id)
    version = request.meta[_VERSION]
    name = request.params.get(_NAME_PARAMS.get(request.method, ""))
    expected = {"mcp-protocol-version": version, "mcp-method": request.method} | ({"mcp-name": name} if name else {})
    for header, value in expected.items():
        if _decode_header(headers.get(header)) != value:
            return RpcError(HEADER_MISMATCH, f"the header {header} does not match the body", request.id)
    if version not in MODERN:
        return _unsupported_version(str(version), request.id)
    return RpcRequest(request.id, request.method, request.params, version, mapping(request.meta[_CAPABILITIES]))


def _unsupported_version(requested: str, id: RequestId | None) -> RpcError:
    data = {"supported": [*MODERN, *reversed(HANDSHAKE)], "requested": requested}
    return RpcError(UNSUPPORTED_VERSION, "unsupported protocol version", id, data)


def _decode_header(value: str | None) -> str | None:
    """Decode a header. A value that HTTP cannot carry is encoded in base64."""
    wrapped = _ENCODED.fullmatch(value) if value is not None else None
    if wrapped is None:
        return value
    try:
        data = base64.b64decode(wrapped[1], validate=True)
        return data.decode() if base64.b64encode(data).decode() == wrapped[1] else None
    except (binascii.Error, ValueError):
        return None


def _is_id(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
