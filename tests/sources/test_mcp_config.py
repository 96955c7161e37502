"""mcp.json files as clients write them: they are read, and invalid entries are reported with a fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import DefinitionError
from ferrule.sources.mcp.config import (
    HttpTransport,
    McpConfig,
    Server,
    StdioTransport,
    Timeouts,
    config_of,
    read_config,
)
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
