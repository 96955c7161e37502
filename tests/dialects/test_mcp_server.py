"""The Model Context Protocol read and written: both eras, and whatever else a body may hold."""

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
    Call,
    Fault,
    Note,
    progress,
    read,
    result,
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
    call = read(message(), {})
    assert isinstance(call, Call)
    assert (call.id, call.method, call.version, call.is_modern) == (1, "tools/list", HANDSHAKE[-1], False)


@pytest.mark.parametrize("version", [*HANDSHAKE, "1999-01-01"])
def test_a_handshake_agrees_on_a_version_that_is_known(version: str) -> None:
    call = read(message("initialize", {"protocolVersion": version}), {})
    assert isinstance(call, Call)
    assert call.version == (version if version in HANDSHAKE else HANDSHAKE[-1])


def test_a_sound_request_of_the_newer_era_is_read_with_its_capabilities() -> None:
    params, headers = modern("tools/call", name="pay", arguments={})
    params["_meta"][f"{_META}clientCapabilities"] = {"elicitation": {}}
    call = read(message("tools/call", params), headers)
    assert isinstance(call, Call)
    assert (call.is_modern, call.takes_forms) == (True, True)


@pytest.mark.parametrize(
    "capabilities, takes",
    [
        ({}, False),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": 1}, False),
    ],
)
def test_only_a_client_that_says_so_is_asked_by_a_form(capabilities: dict[str, Any], takes: bool) -> None:
    assert Call(1, "tools/call", {}, MODERN[0], capabilities).takes_forms is takes
    assert not Call(1, "tools/call", {}, HANDSHAKE[-1], capabilities).takes_forms


@pytest.mark.parametrize("header", ["mcp-protocol-version", "mcp-method", "mcp-name"])
@pytest.mark.parametrize("value", [None, "other"])
def test_headers_that_do_not_say_what_the_body_says_are_refused(header: str, value: str | None) -> None:
    params, headers = modern("tools/call", name="pay")
    wrong = {key: held for key, held in headers.items() if key != header} | ({header: value} if value else {})
    found = read(message("tools/call", params), wrong)
    assert isinstance(found, Fault)
    assert (found.code, found.status, found.id) == (HEADER_MISMATCH, 400, 1)


@given(st.text(min_size=1))
def test_a_name_that_http_cannot_carry_comes_in_base64(name: str) -> None:
    params, headers = modern("tools/call", name=name)
    headers["mcp-name"] = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    assert isinstance(read(message("tools/call", params), headers), Call)
    for broken in ("=?base64?%%?=", "=?base64?YQ?=", "=?base64?/w==?="):
        assert isinstance(read(message("tools/call", params), {**headers, "mcp-name": broken}), Fault)


def test_white_space_around_a_header_is_not_part_of_it() -> None:
    params, headers = modern("tools/call", name="pay")
    assert isinstance(read(message("tools/call", params), {key: f" {held}\t " for key, held in headers.items()}), Call)


def test_a_version_that_nobody_knows_is_told_which_are() -> None:
    params, headers = modern(version="2030-01-01")
    found = read(message(params=params), headers)
    assert isinstance(found, Fault)
    assert (found.code, found.status) == (UNSUPPORTED_VERSION, 400)
    assert found.data == {"supported": [*MODERN, *reversed(HANDSHAKE)], "requested": "2030-01-01"}


def test_the_newer_era_says_with_each_request_what_it_is() -> None:
    for params in ({}, {"_meta": {}}, {"_meta": 3}, {"_meta": {f"{_META}protocolVersion": MODERN[0]}}):
        found = read(message(params=params), {"mcp-protocol-version": MODERN[0], "mcp-method": "tools/list"})
        assert isinstance(found, Fault)
        assert found.code == INVALID_PARAMS


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
    found = read(body, {})
    assert isinstance(found, Fault)
    assert found.code == code


def test_a_notification_has_no_answer() -> None:
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert read(body, {}) == Note("notifications/initialized")
    assert read(body, {"mcp-protocol-version": MODERN[0]}) == Note("notifications/initialized")
    assert isinstance(read(body, {"mcp-protocol-version": "2030-01-01"}), Fault)


@given(JSON, st.dictionaries(st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name"]), st.text(max_size=12)))
def test_no_json_raises(body: Any, headers: dict[str, str]) -> None:
    found = read(json.dumps(body).encode(), headers)
    assert isinstance(found, Call | Note | Fault)


@given(st.binary(max_size=40))
def test_no_bytes_raise(body: bytes) -> None:
    assert isinstance(read(body, {}), Call | Note | Fault)


@given(
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "method": st.sampled_from(["tools/call", "initialize"])},
        optional={"id": JSON, "params": JSON},
    )
)
def test_no_message_raises_whatever_it_holds(held: dict[str, Any]) -> None:
    for headers in ({}, {"mcp-protocol-version": MODERN[0], "mcp-method": held["method"]}):
        found = read(json.dumps(held).encode(), headers)
        if isinstance(found, Call):
            assert found.progress_token is None or isinstance(found.progress_token, int | str)


def test_results_of_the_newer_era_say_their_kind_and_who_gives_them() -> None:
    old = result(Call(7, "ping"), {})
    new = result(Call(7, "x", {}, MODERN[0]), {"a": 1, "_meta": {"k": "v"}}, "input_required")
    assert old == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert new["result"]["resultType"] == "input_required"
    assert new["result"]["_meta"]["k"] == "v"
    assert new["result"]["_meta"][f"{_META}serverInfo"]["name"] == "ferrule"


def test_progress_leaves_out_what_nobody_knows() -> None:
    assert progress("t", 1, None, "")["params"] == {"progressToken": "t", "progress": 1}
    assert progress(2, 1, 4, "x")["params"] == {"progressToken": 2, "progress": 1, "total": 4, "message": "x"}
