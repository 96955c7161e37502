"""What cannot work together, and what is unwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ferrule.server.addresses import is_loopback, without_secrets
from ferrule.server.config.config import Config, EngineConfig, KeyConfig, Listening, ModelConfig, SourcesConfig
from ferrule.server.config.validation import impossible, unwise

LOCAL = Config(engines=(EngineConfig(name="e", use="fake:hi"),))
KEY = KeyConfig(name="k", sha256="1" * 64)
PUBLIC = replace(LOCAL, listening=Listening(host="0.0.0.0"))
MCP = replace(LOCAL, sources=SourcesConfig(mcp_command="x", mcp_pins="pins.json"), ledger="l.db")


def told(config: Config, *effects: str) -> str:
    assert not impossible(config)
    return "\n".join(unwise(config, effects))


def wrong(config: Config) -> str:
    return "\n".join(map(str, impossible(config)))


def test_one_engine_on_this_machine_is_neither_impossible_nor_unwise() -> None:
    assert (wrong(LOCAL), told(LOCAL)) == ("", "")


def test_a_public_address_needs_keys_or_a_word_that_it_is_meant() -> None:
    assert "0.0.0.0 is reached from beyond this machine, and there are no keys" in wrong(PUBLIC)
    assert "--insecure" in wrong(PUBLIC)
    assert not wrong(replace(PUBLIC, keys=(KEY,)))
    insecure = replace(PUBLIC, listening=Listening(host="0.0.0.0", insecure=True, hosts=("*",)))
    assert "everybody who reaches 0.0.0.0 may use all models and tools" in told(insecure)
    assert "any Host is answered to" in told(insecure)
    assert "unencrypted" in told(replace(PUBLIC, keys=(KEY,)))


@pytest.mark.parametrize(
    "host, is_ours",
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True)),
        *(("", False), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("gateway.example", False)),
    ],
)
def test_which_hosts_are_this_machine(host: str, is_ours: bool) -> None:
    assert is_loopback(host) is is_ours


def test_models_name_engines_that_are_there_and_no_name_stands_for_two() -> None:
    assert "there is no engine 'x'" in wrong(replace(LOCAL, models=(ModelConfig(name="m", engines=("x",)),)))
    assert "no engine serves it" in wrong(replace(LOCAL, models=(ModelConfig(name="m", engines=()),)))
    two = (*LOCAL.engines, EngineConfig(name="f", use="fake:x"))
    clash = replace(LOCAL, engines=two, models=(ModelConfig(name="e", engines=("f",)),))
    assert "a second model of that name" in wrong(clash)
    assert not wrong(replace(clash, models=(ModelConfig(name="e", engines=("f", "e")),)))


def test_keys_are_hashes_and_each_its_own() -> None:
    assert "64 hexadecimal digits" in wrong(replace(LOCAL, keys=(replace(KEY, sha256="A" * 64),)))
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert "that of an empty text" in wrong(replace(LOCAL, keys=(replace(KEY, sha256=empty),)))
    assert "k and l are the same key" in wrong(replace(LOCAL, keys=(KEY, replace(KEY, name="l"))))


def test_what_is_for_nothing_is_a_mistake() -> None:
    assert "no mcp_command" in wrong(replace(LOCAL, sources=SourcesConfig(mcp_args=("a",))))
    assert "no nats" in wrong(replace(LOCAL, sources=SourcesConfig(nats_key_file="f")))


@pytest.mark.parametrize(
    "use, is_unwise",
    [
        ("vllm:http://10.0.0.1:8000", True),
        ("vllm:http://127.0.0.1:8000", False),
        ("vllm:https://10.0.0.1", False),
        ("openai:m?url=http://gpu/v1&key=s3cret", True),
        ("llama:model.gguf", False),
    ],
)
def test_engines_beyond_this_machine_want_tls(use: str, is_unwise: bool) -> None:
    words = told(replace(LOCAL, engines=(EngineConfig(name="e", use=use),)))
    assert ("over plain http" in words) is is_unwise
    assert "s3cret" not in words


def test_tools_that_change_the_world_want_a_ledger_leave_and_somebody_to_give_it() -> None:
    own = replace(LOCAL, sources=SourcesConfig(functions=("t.py:TOOLS",)))
    assert told(own) == ""
    assert "no ledger that lasts, and order may change the world" in told(own, "order")
    assert told(MCP) == ""
    assert "not pinned over a restart" in told(replace(MCP, sources=replace(MCP.sources, mcp_pins="")))
    free = replace(MCP.tools, tools_require_confirmation_for_side_effects=False)
    assert "without anybody's leave" in told(replace(MCP, tools=free))
    assert "no key may approve" in told(replace(MCP, keys=(replace(KEY, tools=("*",)),)))
    assert "no key may use the gateway's tools" in told(replace(MCP, keys=(replace(KEY, approve=True),)))
    assert told(replace(MCP, keys=(replace(KEY, approve=True, tools=("*",)),))) == ""
    assert told(replace(MCP, ledger="", tools=replace(MCP.tools, tools_enabled=False))) == ""


def test_keys_that_come_to_nothing_are_told() -> None:
    assert "may use the model x, which is not served" in told(replace(LOCAL, keys=(replace(KEY, models=("x",)),)))
    bus = replace(LOCAL, sources=SourcesConfig(nats="nats://10.0.0.1", nats_tenant="acme"), ledger="l.db")
    words = told(replace(bus, keys=(replace(KEY, tools=("*",), approve=True),)))
    assert "of the tenant local and cannot use the bus of acme" in words
    assert "without TLS" in words
    assert "need a key" in words


def test_workers_that_each_load_a_model_are_told() -> None:
    llama = (EngineConfig(name="e", use="llama:m.gguf"),)
    assert "loads the model" in told(replace(LOCAL, engines=llama, listening=Listening(workers=2)))
    assert told(replace(LOCAL, engines=llama)) == ""


@pytest.mark.parametrize(
    "text, shown",
    [
        ("postgresql://me:pw@h/d", "postgresql://me:***@h/d"),
        ("openai:m?key=s%26&url=http://u:p@h/v1", "openai:m?key=***&url=http://u:***@h/v1"),
        ("https://h/mcp?api_key=1&x=2&token=3", "https://h/mcp?api_key=***&x=2&token=***"),
        ("llama:model.gguf?threads=1", "llama:model.gguf?threads=1"),
        ("nats://h:4222", "nats://h:4222"),
        ("nats://token@h:4222", "nats://***@h:4222"),
    ],
)
def test_addresses_are_shown_without_what_they_keep_secret(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
