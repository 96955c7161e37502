"""The MCP codec: both generations of the protocol, and invalid bodies."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.dialects.mcp_server import (
    HANDSHAKE,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MODERN,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    RpcError,
    RpcNotification,
    RpcRequest,
    progress_notification,
    read_message,
    result_message,
)

_META = "io.modelcontextprotocol/"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def message(method: str = "tools/list", params: Any = None, id: Any = 1, **others: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}, **others}).encode()


def modern(
    method: str = "tools/list", version: str = MODERN[0], **params: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """The params and the headers of a sound request of the newer era."""
    meta = {f"{_META}protocolVersion": version, f"{_META}clientCapabilities": {}}
    headers = {"mcp-protocol-version": version, "mcp-method": method}
    return {**params, "_meta": meta}, headers | ({"mcp-name": params["name"]} if "name" in params else {})


def test_a_request_without_anything_is_of_the_handshake() -> None:
    call = read_message(message(), {})
    assert isinstance(call, RpcRequest)
    assert (call.id, call.method, call.version, call.is_modern) == (1, "tools/list", HANDSHAKE[-1], False)


@pytest.mark.parametrize("version", [*HANDSHAKE, "1999-01-01"])
def test_a_handshake_agrees_on_a_version_that_is_known(version: str) -> None:
    call = read_message(message("initialize", {"protocolVersion": version}), {})
    assert isinstance(call, RpcRequest)
    assert call.version == (version if version in HANDSHAKE else HANDSHAKE[-1])


def test_a_sound_request_of_the_newer_era_is_read_with_its_capabilities() -> None:
    params, headers = modern("tools/call", name="pay", arguments={})
    params["_meta"][f"{_META}clientCapabilities"] = {"elicitation": {}}
    call = read_message(message("tools/call", params), headers)
    assert isinstance(call, RpcRequest)
    assert (call.is_modern, call.supports_forms) == (True, True)


@pytest.mark.parametrize(
    "capabilities, takes",
    [
        ({}, False),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": 1}, False),
    ],
)
def test_only_a_client_with_the_capability_is_sent_a_form(capabilities: dict[str, Any], takes: bool) -> None:
    assert RpcRequest(1, "tools/call", {}, MODERN[0], capabilities).supports_forms is takes
    assert not RpcRequest(1, "tools/call", {}, HANDSHAKE[-1], capabilities).supports_forms


@pytest.mark.parametrize("header", ["mcp-protocol-version", "mcp-method", "mcp-name"])
@pytest.mark.parametrize("value", [None, "other"])
def test_headers_that_do_not_match_the_body_are_refused(header: str, value: str | None) -> None:
    params, headers = modern("tools/call", name="pay")
    wrong = {key: content for key, content in headers.items() if key != header} | ({header: value} if value else {})
    result = read_message(message("tools/call", params), wrong)
    assert isinstance(result, RpcError)
    assert (result.code, result.status, result.id) == (HEADER_MISMATCH, 400, 1)


@given(st.text(min_size=1))
def test_a_name_that_http_cannot_carry_comes_in_base64(name: str) -> None:
    params, headers = modern("tools/call", name=name)
    headers["mcp-name"] = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    assert isinstance(read_message(message("tools/call", params), headers), RpcRequest)
    for broken in ("=?base64?%%?=", "=?base64?YQ?=", "=?base64?/w==?="):
        assert isinstance(read_message(message("tools/call", params), {**headers, "mcp-name": broken}), RpcError)


def test_white_space_around_a_header_is_not_part_of_it() -> None:
    params, headers = modern("tools/call", name="pay")
    assert isinstance(
        read_message(message("tools/call", params), {key: f" {value}\t " for key, value in headers.items()}), RpcRequest
    )


def test_an_unknown_version_gets_the_supported_ones() -> None:
    params, headers = modern(version="2030-01-01")
    result = read_message(message(params=params), headers)
    assert isinstance(result, RpcError)
    assert (result.code, result.status) == (UNSUPPORTED_VERSION, 400)
    assert result.data == {"supported": [*MODERN, *reversed(HANDSHAKE)], "requested": "2030-01-01"}


def test_requests_of_2026_07_28_carry_their_version_and_capabilities() -> None:
    for params in ({}, {"_meta": {}}, {"_meta": 3}, {"_meta": {f"{_META}protocolVersion": MODERN[0]}}):
        result = read_message(message(params=params), {"mcp-protocol-version": MODERN[0], "mcp-method": "tools/list"})
        assert isinstance(result, RpcError)
        assert result.code == INVALID_PARAMS


@pytest.mark.parametrize(
    "body, code",
    [
        (b"", PARSE_ERROR),
        (b"{", PARSE_ERROR),
        (b"\xff", PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b"3", INVALID_REQUEST),
        (message(jsonrpc="1.0"), INVALID_REQUEST),
        (message(id=None), INVALID_REQUEST),
        (message(id=True), INVALID_REQUEST),
        (message(id=[1]), INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID_REQUEST),
        (message("initialize", {"protocolVersion": 3}), INVALID_PARAMS),
    ],
)
def test_what_is_no_message_is_refused_by_its_own_number(body: bytes, code: int) -> None:
    result = read_message(body, {})
    assert isinstance(result, RpcError)
    assert result.code == code


def test_a_notification_has_no_answer() -> None:
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert read_message(body, {}) == RpcNotification("notifications/initialized")
    assert read_message(body, {"mcp-protocol-version": MODERN[0]}) == RpcNotification("notifications/initialized")
    assert isinstance(read_message(body, {"mcp-protocol-version": "2030-01-01"}), RpcError)


@given(JSON, st.dictionaries(st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name"]), st.text(max_size=12)))
def test_no_json_raises(body: Any, headers: dict[str, str]) -> None:
    result = read_message(json.dumps(body).encode(), headers)
    assert isinstance(result, RpcRequest | RpcNotification | RpcError)


@given(st.binary(max_size=40))
def test_no_bytes_raise(body: bytes) -> None:
    assert isinstance(read_message(body, {}), RpcRequest | RpcNotification | RpcError)


@given(
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "method": st.sampled_from(["tools/call", "initialize"])},
        optional={"id": JSON, "params": JSON},
    )
)
def test_no_message_raises_whatever_it_holds(value: dict[str, Any]) -> None:
    for headers in ({}, {"mcp-protocol-version": MODERN[0], "mcp-method": value["method"]}):
        result = read_message(json.dumps(value).encode(), headers)
        if isinstance(result, RpcRequest):
            assert result.progress_token is None or isinstance(result.progress_token, int | str)


def test_results_of_2026_07_28_carry_their_type_and_the_server() -> None:
    old = result_message(RpcRequest(7, "ping"), {})
    new = result_message(RpcRequest(7, "x", {}, MODERN[0]), {"a": 1, "_meta": {"k": "v"}}, "input_required")
    assert old == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert new["result"]["resultType"] == "input_required"
    assert new["result"]["_meta"]["k"] == "v"
    assert new["result"]["_meta"][f"{_META}serverInfo"]["name"] == "ferrule"


def test_progress_leaves_out_unknown_fields() -> None:
    assert progress_notification("t", 1, None, "")["params"] == {"progressToken": "t", "progress": 1}
    assert progress_notification(2, 1, 4, "x")["params"] == {
        "progressToken": 2,
        "progress": 1,
        "total": 4,
        "message": "x",
    }
