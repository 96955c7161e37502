"""mcp.json files as clients write them: they are read, and invalid entries are reported with a fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import DefinitionError
from ferrule.sources.mcp.access import ToolAccess
from ferrule.sources.mcp.config import (
    HttpTransport,
    IdentityProvider,
    McpConfig,
    OAuthClient,
    Server,
    StdioTransport,
    Timeouts,
    config_of,
    read_config,
)
from ferrule.sources.mcp.options import ResourceAccess
from ferrule.sources.mcp.sandbox import Sandbox
from ferrule.sources.mcp.servers import McpServers

SET = {"TOKEN": "secret", "EMPTY": ""}


def config(entry: object, name: str = "s", key: str = "mcpServers") -> McpConfig:
    return config_of({key: {name: entry}}, SET)


def server(entry: object) -> Server:
    (result,) = config(entry).servers
    return result


def fault(entry: object) -> str:
    result = config(entry)
    assert not result.servers
    (message,) = result.faults
    return message


def test_a_process_and_an_endpoint_are_read_whichever_top_key_they_stand_under() -> None:
    process = {"command": "npx", "args": ["-y", "pkg"], "env": {"K": "v"}, "cwd": "there"}
    endpoint = {"type": "http", "url": "https://host/mcp", "headers": {"X": "y"}}
    for key in ("mcpServers", "servers"):
        parsed = config_of({key: {"fs": process, "web": endpoint}}, {})
        assert parsed.servers == (
            Server("fs", StdioTransport("npx", ("-y", "pkg"), {"K": "v"}, "there")),
            Server("web", HttpTransport("https://host/mcp", {"X": "y"})),
        )
        assert not parsed.faults


def test_both_top_keys_are_read_and_a_name_in_both_is_used_once() -> None:
    one, two = {"command": "one"}, {"command": "two"}
    parsed = config_of({"mcpServers": {"a": one, "b": one}, "servers": {"b": two, "c": two}}, {})
    assert [one.name for one in parsed.servers] == ["a", "b", "c"]
    assert parsed.faults == ("b: the server is defined twice; remove one of the two",)


@pytest.mark.parametrize(
    "value, expected",
    [
        ("Bearer ${TOKEN}", "Bearer secret"),
        ("${env:TOKEN}", "secret"),
        ("${NOT_SET:-plain}", "plain"),
        ("${NOT_SET:-}", ""),
        ("${EMPTY:-plain}", "plain"),
        ("${TOKEN}-${TOKEN}", "secret-secret"),
        ("$TOKEN and }{", "$TOKEN and }{"),
    ],
)
def test_variables_are_filled_in_everywhere(value: str, expected: str) -> None:
    assert server({"url": "https://h", "headers": {"A": value}}).transport == HttpTransport(
        "https://h", {"A": expected}
    )
    assert server({"command": "c", "args": [value], "env": {"A": value}}).transport == StdioTransport(
        "c", (expected,), {"A": expected}
    )


@pytest.mark.parametrize(
    "entry, expected",
    [
        ({"command": "${NOT_SET}"}, "${NOT_SET} is not set; set it, or write ${NOT_SET:-default}"),
        ({"command": "${input:key}"}, "use an environment variable"),
        ({}, '"command" is missing'),
        ({"type": "http"}, '"url" is missing'),
        ({"url": "file:///etc/passwd"}, "must begin with http:// or https://"),
        ({"type": "sse", "url": "https://h"}, "use the server's streamable HTTP URL and type http"),
        ({"type": "carrier-pigeon", "command": "c"}, "write stdio or http"),
        ({"command": "c", "args": ["a", 1]}, "quote numbers"),
        ({"command": "c", "env": {"A": 1}}, "quote numbers"),
        ({"command": "c", "timeout": 60}, "for seconds write 60000"),
        ({"command": "c", "timeout": "1m"}, "milliseconds"),
        ({"command": "c", "trusted": "yes"}, '"trusted" must be true or false'),
        ("npx", "an entry is an object"),
    ],
)
def test_an_entry_that_cannot_be_used_says_what_to_do(entry: object, expected: str) -> None:
    assert expected in fault(entry)


def test_one_bad_entry_costs_the_others_nothing() -> None:
    parsed = config_of({"mcpServers": {"bad": {}, "good": {"command": "c"}}}, {})
    assert [one.name for one in parsed.servers] == ["good"]
    assert parsed.faults == ('bad: "command" is missing',)


def test_timeouts_are_in_milliseconds_and_keys_of_other_programs_are_left_alone() -> None:
    entry = {"command": "c", "timeout": 5_000, "connectTimeout": 90_000, "description": "x", "icon": "${input:x}"}
    assert server(entry).timeouts == Timeouts(connect=90, call=5)


def test_a_server_that_is_switched_off_is_neither_there_nor_a_fault() -> None:
    for entry in ({"command": "c", "disabled": True}, {"command": "c", "enabled": False}):
        assert config(entry) == McpConfig()


def test_trust_is_asked_for_by_name() -> None:
    assert server({"command": "c", "trusted": True}).trusted
    assert not server({"command": "c"}).trusted


def test_a_file_of_another_program_may_be_trusted_as_a_whole_but_a_server_s_own_word_counts() -> None:
    servers = {"a": {"command": "c"}, "b": {"command": "c", "trusted": False}, "c": {"command": "c", "trusted": True}}
    read = config_of({"mcpServers": servers}, {}, trusted=True)
    assert {one.name: one.trusted for one in read.servers} == {"a": True, "b": False, "c": True}


def test_secrets_are_not_shown_and_do_not_make_the_identity() -> None:
    with_one = server({"url": "https://h", "headers": {"A": "${TOKEN}"}})
    assert "secret" not in repr(with_one)
    assert with_one.identity == server({"url": "https://h"}).identity
    assert with_one.identity != server({"url": "https://other"}).identity


def test_a_file_is_read_and_one_that_is_no_json_or_no_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("\ufeff" + json.dumps({"servers": {"a": {"command": "c"}}}), encoding="utf-8")
    assert [one.name for one in read_config(path, {}).servers] == ["a"]
    path.write_text('{"servers": {}, // no\n}', encoding="utf-8")
    with pytest.raises(DefinitionError, match="not JSON"):
        read_config(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DefinitionError, match="not UTF-8"):
        read_config(path)
    with pytest.raises(DefinitionError, match="cannot be read"):
        read_config(tmp_path / "nothing.json")


@pytest.mark.parametrize("document", [None, [], {}, {"mcpServers": []}, {"other": {}}], ids=repr)
def test_a_document_without_servers_shows_how_they_are_written(document: object) -> None:
    with pytest.raises(DefinitionError) as refusal:
        config_of(document)
    assert "mcpServers" in refusal.value.hint


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda held: st.lists(held, max_size=3) | st.dictionaries(st.text(max_size=5), held, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from(["type", "command", "args", "env", "cwd", "url", "headers", "timeout", "trusted", "disabled"])


@given(st.dictionaries(st.text(max_size=5), st.dictionaries(keys, json_values, max_size=6) | json_values, max_size=4))
def test_any_entry_becomes_a_server_or_a_fault(entries: dict[str, Any]) -> None:
    parsed = config_of({"mcpServers": entries}, SET)
    assert len(parsed.servers) + len(parsed.faults) <= len(entries)


@pytest.mark.parametrize("kind", [str, Path])
def test_servers_are_made_from_the_path_of_a_file(tmp_path: Path, kind: type[str] | type[Path]) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"files": {"command": "serve-files"}}}), encoding="utf-8")
    assert [entry.name for entry in McpServers(kind(file)).config.servers] == ["files"]


def test_a_path_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="cannot be read"):
        McpServers(tmp_path / "mcp.json")


def test_a_registered_client_is_read_and_its_secrets_are_not_shown() -> None:
    entry = {
        "url": "https://a.example/mcp",
        "oauth": {"clientId": "c", "clientSecret": "${TOKEN}", "scope": "use", "callbackPort": 4000, "issuer": "i"},
    }
    transport = server(entry).transport
    assert isinstance(transport, HttpTransport)
    assert transport.oauth == OAuthClient("c", "secret", scope="use", issuer="i", callback_port=4000)
    assert "secret" not in repr(transport)
    machine = {"clientId": "c", "privateKey": "pem", "algorithm": "ES256", "grant": "client_credentials", "issuer": "i"}
    transport = server({**entry, "oauth": machine}).transport
    assert isinstance(transport, HttpTransport)
    assert transport.oauth.signs_in_itself
    provider = {"tokenUrl": "https://idp.example/token", "clientId": "i", "clientSecret": "${TOKEN}"}
    managed = {
        "clientId": "c",
        "grant": "jwt_bearer",
        "assertionFile": "f",
        "issuer": "i",
        "identityProvider": provider,
    }
    transport = server({**entry, "oauth": managed}).transport
    assert isinstance(transport, HttpTransport)
    assert transport.oauth.identity_provider == IdentityProvider("https://idp.example/token", "i", "secret")
    assert "secret" not in repr(transport)


@pytest.mark.parametrize(
    "oauth, words",
    [
        ("yes", "must be an object"),
        ({"clientID": "c"}, "unknown key 'clientID'"),
        ({"callbackPort": "80"}, "must be a port number"),
        ({"callbackPort": 70_000}, "must be a port number"),
        ({"grant": "password"}, "must be one of authorization_code, client_credentials, jwt_bearer"),
        ({"grant": "jwt_bearer", "clientId": "c"}, 'needs "clientId" and "assertionFile"'),
        ({"assertionFile": "f", "issuer": "i"}, '"assertionFile" needs "grant"'),
        ({"grant": "jwt_bearer", "clientId": "c", "assertionFile": "f"}, 'needs "issuer"'),
        (
            {"grant": "client_credentials", "clientId": "c", "clientSecret": "s", "assertionFile": "f", "issuer": "i"},
            "give one of",
        ),
        ({"clientId": "c", "clientSecret": "s"}, 'needs "issuer"'),
        ({"grant": "client_credentials", "clientId": "c"}, '"privateKey" or "assertionFile"'),
        (
            {"grant": "client_credentials", "clientId": "c", "identityProvider": {"tokenUrl": "u", "clientId": "i"}},
            '"identityProvider" needs "grant": "jwt_bearer"',
        ),
        ({"identityProvider": {"tokenUrl": "u"}}, '"identityProvider" must be'),
        ({"identityProvider": {"tokenUrl": "u", "clientId": "i", "issuer": "x"}}, '"identityProvider" must be'),
        ({"identityProvider": "https://login.example"}, '"identityProvider" must be'),
        ({"account": "everyone"}, "must be one of shared, tenant, principal"),
        (
            {"grant": "client_credentials", "clientId": "c", "clientSecret": "s", "issuer": "i", "account": "tenant"},
            "nobody's own account",
        ),
    ],
)
def test_a_client_that_could_not_sign_in_is_reported(oauth: object, words: str) -> None:
    assert words in fault({"url": "https://a.example/mcp", "oauth": oauth})


def test_a_server_with_a_token_of_its_own_is_never_signed_in_to() -> None:
    for name in ("Authorization", "authorization"):
        transport = server({"url": "https://a.example/mcp", "headers": {name: "Bearer x"}}).transport
        assert isinstance(transport, HttpTransport)
        assert not transport.may_sign_in


def test_what_the_operator_says_of_tools_is_patterns() -> None:
    access = server({"command": "c", "allow": ["get_*"], "deny": ["*_secret"], "readOnly": True}).access
    assert access == ToolAccess(("get_*",), ("*_secret",), ("*",))
    assert server({"command": "c", "readOnly": ["get_*"]}).access.read_only == ("get_*",)
    assert server({"command": "c", "readOnly": False}).access == ToolAccess()
    for entry in ({"allow": "get_*"}, {"deny": [1]}, {"readOnly": "yes"}, {"allow": [""]}):
        assert "must be a list of names" in fault({"command": "c", **entry})


@pytest.mark.parametrize(
    "value, expected",
    [
        (False, None),
        (True, Sandbox()),
        (
            {"readable": ["/srv/docs/"], "writable": ["/srv/out"], "network": True},
            Sandbox(True, ("/srv/docs",), ("/srv/out",)),
        ),
    ],
)
def test_a_sandbox_is_true_or_names_what_is_allowed(value: object, expected: Sandbox | None) -> None:
    transport = server({"command": "x", "sandbox": value}).transport
    assert isinstance(transport, StdioTransport)
    assert transport.sandbox == expected


@pytest.mark.parametrize(
    "value, words",
    [
        ("yes", '"sandbox" must be true'),
        ({"write": ["/srv"]}, "unknown key 'write'"),
        ({"network": 1}, "must be true or false"),
        ({"readable": "/srv"}, "must be a list of paths"),
        ({"readable": ["docs"]}, "must name absolute paths"),
        ({"writable": ["/"]}, "must name absolute paths"),
        ({"writable": ["/proc/"]}, "must name absolute paths"),
    ],
)
def test_a_sandbox_that_cannot_be_read_is_a_fault_and_not_a_server_without_one(value: object, words: str) -> None:
    assert words in fault({"command": "x", "sandbox": value})


def test_a_server_that_runs_elsewhere_has_no_sandbox() -> None:
    assert "runs elsewhere" in fault({"url": "https://x.example/mcp", "sandbox": True})


@pytest.mark.parametrize(
    "value, expected",
    [
        (True, ResourceAccess()),
        (False, None),
        ({}, ResourceAccess()),
        ({"allow": ["wiki://*"], "deny": ["*/drafts/*"]}, ResourceAccess(("wiki://*",), ("*/drafts/*",))),
        ({"allow": []}, ResourceAccess(())),
    ],
)
def test_resources_and_prompts_are_off_unless_the_entry_asks_for_them(
    value: object, expected: ResourceAccess | None
) -> None:
    plain = server({"command": "x"})
    assert (plain.resources, plain.prompts) == (None, False)
    asking = server({"command": "x", "resources": value, "prompts": True})
    assert (asking.resources, asking.prompts) == (expected, True)


@pytest.mark.parametrize(
    "entry, words",
    [
        ({"resources": "wiki://*"}, '"resources" must be true, or'),
        ({"resources": {"alow": ["a"]}}, "unknown key 'alow'"),
        ({"resources": {"deny": "a"}}, '"deny" of "resources" must be a list of patterns'),
        ({"prompts": "yes"}, '"prompts" must be true or false'),
        ({"prompts": 1}, '"prompts" must be true or false'),
    ],
)
def test_resources_that_cannot_be_read_are_a_fault_and_not_an_open_door(entry: dict[str, Any], words: str) -> None:
    assert words in fault({"command": "x", **entry})
