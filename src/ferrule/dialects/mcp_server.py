"""The Model Context Protocol as a server speaks it over HTTP, both eras, as a codec: bytes to values, values to JSON.

Written here and not taken from the SDK, whose server is an application of its own: it brings its own routes, sessions,
tasks and validation, looks at keys in its own way, and answers before anybody here is asked. A gateway has one door,
one clock on every answer and one ledger behind every call, so the protocol must be a codec like the other dialects.
What a server of tools needs of it is small: these few methods, and the rules of 2026-07-28 for headers and `_meta`.

No IO and no clock. Who may see which tool, and what a call comes to, is told from outside. The facts are those of the
packages `mcp` and `mcp_types` 2.3.0, whose client is tried against this in both eras (tests/live).
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
"""The versions whose results may hold structured content."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR, REFUSED = -32603, -32000
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
_STATUS = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}
# The handshake's clients read an answer's body only under 200; what is no request at all has no answer.
_STATUS_HANDSHAKE = {PARSE_ERROR: 400, INVALID_REQUEST: 400, UNSUPPORTED_VERSION: 400}

_META = "io.modelcontextprotocol/"
_VERSION, _CAPABILITIES, _SERVER = f"{_META}protocolVersion", f"{_META}clientCapabilities", f"{_META}serverInfo"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
RequestId = int | str


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `version` is the protocol's; `capabilities` are the client's, where it says them with each request."""

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
    def takes_forms(self) -> bool:
        """Whether the client can ask its user something in the course of a call; without a mode named, by a form."""
        asks = self.capabilities.get("elicitation")
        return self.is_modern and isinstance(asks, dict) and ("form" in asks or not asks)


@dataclass(frozen=True, slots=True)
class Note:
    """A notification: nobody waits for an answer."""

    method: str


@dataclass(frozen=True, slots=True)
class Fault:
    """What cannot be answered otherwise than by an error; `status` is HTTP's."""

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


def read(body: bytes, headers: Mapping[str, str]) -> Call | Note | Fault:
    """The one message of a request's body. `headers` have lower-case names."""
    # A field's value ends before the white space behind it, which not every server in front takes away.
    headers = {name: value.strip(" \t") for name, value in headers.items()}
    header = headers.get("mcp-protocol-version")
    is_modern = header is not None and header not in HANDSHAKE
    try:
        held = loads(body.decode())
    except (ValueError, RecursionError):
        return Fault(PARSE_ERROR, "the body is not JSON", is_modern=is_modern)
    message = mapping(held)
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    is_sound = message.get("jsonrpc") == "2.0" and isinstance(method, str) and isinstance(params, dict)
    if not is_sound or ("id" in message and not _is_id(id)):
        told = "the body is not one JSON-RPC request or notification"
        return Fault(INVALID_REQUEST, told, id if _is_id(id) else None, is_modern=is_modern)
    call = Call(cast("RequestId", id), cast("str", method), cast("dict[str, Any]", params), header or HANDSHAKE[-1])
    if "id" not in message:
        is_known = header is None or header in HANDSHAKE or header in MODERN
        return Note(call.method) if is_known else _unsupported(header or "", None)
    if is_modern or _VERSION in call.meta:
        return _modern(call, headers)
    return _of_the_handshake(call)


def result(call: Call, held: Mapping[str, Any], kind: str = "complete") -> dict[str, Any]:
    """An answer. The newer era says of each what kind it is and who gives it."""
    told = dict(held)
    if call.is_modern:
        told = {"resultType": kind, **told, "_meta": {**mapping(told.get("_meta")), _SERVER: SERVER}}
    return {"jsonrpc": "2.0", "id": call.id, "result": told}


def fault(call: Call, code: int, message: str, data: Mapping[str, Any] | None = None) -> Fault:
    return Fault(code, message, call.id, data, call.is_modern)


def progress(token: RequestId, done: float, total: float | None, message: str) -> dict[str, Any]:
    told: dict[str, Any] = {"progressToken": token, "progress": done}
    if total is not None:
        told["total"] = total
    if message:
        told["message"] = message
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}


SERVER = {"name": "ferrule", "title": "Ferrule gateway", "version": "1"}


def mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _of_the_handshake(call: Call) -> Call | Fault:
    if call.method != "initialize":
        return call
    wanted = call.params.get("protocolVersion")
    if not isinstance(wanted, str):
        return Fault(INVALID_PARAMS, "params.protocolVersion must be a string", call.id, is_modern=False)
    return Call(call.id, call.method, call.params, wanted if wanted in HANDSHAKE else HANDSHAKE[-1])


def _modern(call: Call, headers: Mapping[str, str]) -> Call | Fault:
    """The rules of 2026-07-28 in their order: what each request carries, and that headers say the same as the body."""
    missing = [key for key in (_VERSION, _CAPABILITIES) if key not in call.meta]
    if missing:
        return Fault(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}", call.id)
    version = call.meta[_VERSION]
    name = call.params.get(_NAMED.get(call.method, ""))
    said = {"mcp-protocol-version": version, "mcp-method": call.method} | ({"mcp-name": name} if name else {})
    for header, meant in said.items():
        if _decoded(headers.get(header)) != meant:
            return Fault(HEADER_MISMATCH, f"the header {header} is not what the body says", call.id)
    if version not in MODERN:
        return _unsupported(str(version), call.id)
    return Call(call.id, call.method, call.params, version, mapping(call.meta[_CAPABILITIES]))


def _unsupported(requested: str, id: RequestId | None) -> Fault:
    told = {"supported": [*MODERN, *reversed(HANDSHAKE)], "requested": requested}
    return Fault(UNSUPPORTED_VERSION, "unsupported protocol version", id, told)


def _decoded(value: str | None) -> str | None:
    """What a header says. One that HTTP could not carry as it is comes in base64."""
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
