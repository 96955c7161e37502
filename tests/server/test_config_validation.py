"""Errors and warnings about combinations of settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ferrule.server.auth.host import is_loopback
from ferrule.server.config.config import Config, EngineConfig, KeyConfig, ModelConfig, ServerConfig, SourcesConfig
from ferrule.server.config.identity import IdentityConfig, RoleConfig
from ferrule.server.config.validation import find_errors, find_warnings
from ferrule.server.secret_mask import mask_secrets

LOCAL = Config(engines=(EngineConfig(name="e", use="fake:hi"),))
KEY = KeyConfig(name="k", sha256="1" * 64)
PUBLIC = replace(LOCAL, server=ServerConfig(host="0.0.0.0"))
MCP = replace(LOCAL, sources=SourcesConfig(mcp_command="x", mcp_pins="pins.json"), ledger="l.db")


def warnings_of(config: Config, *side_effect_tools: str) -> str:
    assert not find_errors(config)
    return "\n".join(find_warnings(config, side_effect_tools))


def errors_of(config: Config) -> str:
    return "\n".join(map(str, find_errors(config)))


def test_one_local_engine_has_no_errors_and_no_warnings() -> None:
    assert (errors_of(LOCAL), warnings_of(LOCAL)) == ("", "")


def test_a_public_address_needs_keys_or_insecure() -> None:
    assert "0.0.0.0 is reachable from other machines, but there are no keys" in errors_of(PUBLIC)
    assert "--insecure" in errors_of(PUBLIC)
    assert not errors_of(replace(PUBLIC, keys=(KEY,)))
    insecure = replace(PUBLIC, server=ServerConfig(host="0.0.0.0", insecure=True, hosts=("*",)))
    assert "anyone who can reach 0.0.0.0 may use all models and tools" in warnings_of(insecure)
    assert "every Host header is accepted" in warnings_of(insecure)
    assert "unencrypted" in warnings_of(replace(PUBLIC, keys=(KEY,)))


@pytest.mark.parametrize(
    "host, is_ours",
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True)),
        *(("", False), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("gateway.example", False)),
    ],
)
def test_loopback_hosts_are_recognized(host: str, is_ours: bool) -> None:
    assert is_loopback(host) is is_ours


def test_models_name_known_engines_and_have_unique_names() -> None:
    assert "unknown engine 'x'" in errors_of(replace(LOCAL, models=(ModelConfig(name="m", engines=("x",)),)))
    assert "no engine serves it" in errors_of(replace(LOCAL, models=(ModelConfig(name="m", engines=()),)))
    two = (*LOCAL.engines, EngineConfig(name="f", use="fake:x"))
    clash = replace(LOCAL, engines=two, models=(ModelConfig(name="e", engines=("f",)),))
    assert "a second model of that name" in errors_of(clash)
    assert not errors_of(replace(clash, models=(ModelConfig(name="e", engines=("f", "e")),)))


def test_keys_are_valid_and_distinct_hashes() -> None:
    assert "64 lower-case hexadecimal digits" in errors_of(replace(LOCAL, keys=(replace(KEY, sha256="A" * 64),)))
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert "the hash of an empty string" in errors_of(replace(LOCAL, keys=(replace(KEY, sha256=empty),)))
    assert "k and l are the same key" in errors_of(replace(LOCAL, keys=(KEY, replace(KEY, name="l"))))


def test_a_setting_without_the_one_it_depends_on_is_an_error() -> None:
    assert "it needs mcp_command" in errors_of(replace(LOCAL, sources=SourcesConfig(mcp_args=("a",))))
    assert "it needs nats" in errors_of(replace(LOCAL, sources=SourcesConfig(nats_key_file="f")))
    kept = replace(LOCAL, ledger="", sources=SourcesConfig(mcp_credentials="ledger"))
    assert "the ledger is temporary" in errors_of(kept)
    assert "temporary" not in errors_of(replace(kept, ledger="ledger.db"))


@pytest.mark.parametrize(
    "use, is_warned",
    [
        ("vllm:http://10.0.0.1:8000", True),
        ("vllm:http://127.0.0.1:8000", False),
        ("vllm:https://10.0.0.1", False),
        ("openai:m?url=http://gpu/v1&key=s3cret", True),
        ("llama:model.gguf", False),
    ],
)
def test_remote_engines_without_tls_are_warned_about(use: str, is_warned: bool) -> None:
    words = warnings_of(replace(LOCAL, engines=(EngineConfig(name="e", use=use),)))
    assert ("over plain http" in words) is is_warned
    assert "s3cret" not in words


def test_side_effects_need_a_ledger_approvals_and_a_key_that_may_approve() -> None:
    own = replace(LOCAL, sources=SourcesConfig(functions=("t.py:TOOLS",)))
    assert warnings_of(own) == ""
    assert "order may have side effects, but the ledger is temporary" in warnings_of(own, "order")
    assert warnings_of(MCP) == ""
    assert "not pinned across restarts" in warnings_of(replace(MCP, sources=replace(MCP.sources, mcp_pins="")))
    free = replace(MCP.tools, tools_require_confirmation_for_side_effects=False)
    assert "run without approval" in warnings_of(replace(MCP, tools=free))
    assert "no key may approve" in warnings_of(replace(MCP, keys=(replace(KEY, tools=("*",)),)))
    assert "no key may use the gateway's tools" in warnings_of(replace(MCP, keys=(replace(KEY, approve=True),)))
    assert warnings_of(replace(MCP, keys=(replace(KEY, approve=True, tools=("*",)),))) == ""
    assert warnings_of(replace(MCP, ledger="", tools=replace(MCP.tools, tools_enabled=False))) == ""


def test_keys_without_effect_are_warned_about() -> None:
    assert "may use the model x, which is not served" in warnings_of(
        replace(LOCAL, keys=(replace(KEY, models=("x",)),))
    )
    bus = replace(LOCAL, sources=SourcesConfig(nats="nats://10.0.0.1", nats_tenant="acme"), ledger="l.db")
    words = warnings_of(replace(bus, keys=(replace(KEY, tools=("*",), approve=True),)))
    assert "belongs to the tenant local and cannot use the bus of acme" in words
    assert "without TLS" in words
    assert "need a key" in words


def test_several_tenants_without_an_operator_are_warned_about() -> None:
    admin = replace(KEY, admin=True)
    other = replace(KEY, name="other", sha256="cd" * 32, tenant="other", admin=True)
    provider = IdentityConfig(name="corp", issuer="https://far", audience=("us",), tenant_claim="org")
    role = RoleConfig(name="boss", admin=True)
    for several in (
        replace(LOCAL, keys=(admin, other)),
        replace(LOCAL, identity=(provider,), roles=(role,)),
        replace(LOCAL, identity=(replace(provider, tenant_claim="", tenant="acme"),), roles=(role,), keys=(admin,)),
    ):
        assert "no key is an operator" in warnings_of(several)
        with_operator = replace(several, roles=(*several.roles, RoleConfig(name="platform", operator=True)))
        assert "operator" not in warnings_of(with_operator)
    for one in (replace(LOCAL, keys=(admin,)), replace(LOCAL, keys=(KEY, replace(other, admin=False)))):
        assert "operator" not in warnings_of(one)


def test_workers_that_each_load_a_model_are_warned_about() -> None:
    llama = (EngineConfig(name="e", use="llama:m.gguf"),)
    assert "loads its own copy of the model" in warnings_of(
        replace(LOCAL, engines=llama, server=ServerConfig(workers=2))
    )
    assert warnings_of(replace(LOCAL, engines=llama)) == ""


@pytest.mark.parametrize(
    "text, masked",
    [
        ("postgresql://me:pw@h/d", "postgresql://me:***@h/d"),
        ("openai:m?key=s%26&url=http://u:p@h/v1", "openai:m?key=***&url=http://u:***@h/v1"),
        ("https://h/mcp?api_key=1&x=2&token=3", "https://h/mcp?api_key=***&x=2&token=***"),
        ("llama:model.gguf?threads=1", "llama:model.gguf?threads=1"),
        ("nats://h:4222", "nats://h:4222"),
        ("nats://token@h:4222", "nats://***@h:4222"),
    ],
)
def test_secrets_in_addresses_are_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
