"""Validate a configuration: errors that prevent a start, and warnings. Opens no file and no connection.

Single values are checked when they are parsed; here the combination of values is checked.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from ferrule.core.context import matches
from ferrule.engines.registry import IN_PROCESS, check_engine_spec, parse_engine_spec
from ferrule.errors import DefinitionError
from ferrule.server.auth.host import host_of, is_loopback
from ferrule.server.config.config import CREDENTIALS_IN_LEDGER, Config, EngineConfig, is_one_tenant
from ferrule.server.config.identity_validation import find_identity_errors
from ferrule.server.config.layers import ConfigProblem, format_path, suggest
from ferrule.server.config.quotas import QuotaScope, QuotaUnit
from ferrule.server.hook_names import find_hook_errors
from ferrule.server.quotas.valkey_store import SCHEMES
from ferrule.server.secret_mask import mask_secrets

_ALL = "*"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_EMPTY_TEXT_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_LOCAL = "local"
_MIN_SECRET, _MAX_SECRET = 24, 64


def find_errors(config: Config) -> list[ConfigProblem]:
    """Find the problems that prevent a gateway from starting."""
    return [
        *_engine_errors(config),
        *_model_errors(config),
        *_key_errors(config),
        *find_identity_errors(config.identity, config.roles),
        *_address_errors(config),
        *_source_errors(config),
        *_webhook_errors(config),
        *_retention_errors(config),
        *_search_errors(config),
        *_quota_errors(config),
        *find_hook_errors(config.tools.hooks),
    ]


def find_warnings(config: Config, side_effect_tools: Iterable[str] = ()) -> list[str]:
    """Find risks to know before serving. `side_effect_tools` are names of tools that declare side effects."""
    return [
        *_address_warnings(config),
        *_upstream_warnings(config),
        *_key_warnings(config),
        *_operator_warnings(config),
        *_tool_warnings(config, list(side_effect_tools)),
        *_worker_warnings(config),
        *_quota_warnings(config),
    ]


def has_tools(config: Config) -> bool:
    sources = config.sources
    has_any = sources.functions or sources.mcp_config or sources.mcp_command or sources.nats
    return bool(has_any) and config.tools.tools_enabled


def url_of(engine: EngineConfig) -> str:
    """The URL of an engine; empty if it runs in this process or has a built-in URL."""
    parts = parse_engine_spec(engine.use)
    return parts.options.get("url", "") or (parts.argument if "://" in parts.argument else "")


def _engine_errors(config: Config) -> Iterator[ConfigProblem]:
    if not config.engines:
        yield ConfigProblem(
            "", "no engine is configured", "Give --engine llama:model.gguf, or write [engines.NAME] with use = ..."
        )
    for engine in config.engines:
        try:
            check_engine_spec(engine.use)
        except DefinitionError as error:
            yield ConfigProblem(format_path(("engines", engine.name)), error.message, error.hint.rstrip("."))


def _model_errors(config: Config) -> Iterator[ConfigProblem]:
    names = [engine.name for engine in config.engines]
    for model in config.models:
        path = format_path(("models", model.name))
        if not model.engines:
            yield ConfigProblem(path, "no engine serves it", f"Name some in engines: {', '.join(names)}")
        for name in model.engines:
            if name not in names:
                yield ConfigProblem(path, f"unknown engine {name!r}", suggest(name, names, "engines"))
    for name, times in Counter(model.name for model in config.served_models).items():
        if times > 1:
            # An engine without a model has the same name as a model that other engines serve.
            yield ConfigProblem(
                format_path(("models", name)), f"the engine {name!r} would be a second model of that name", "Rename it"
            )


def _key_errors(config: Config) -> Iterator[ConfigProblem]:
    for key in config.keys:
        path = format_path(("keys", key.name))
        if not _SHA256.fullmatch(key.sha256):
            yield ConfigProblem(
                path, "sha256 is not 64 lower-case hexadecimal digits", f"Create it: ferrule keys new {key.name}"
            )
        elif key.sha256 == _EMPTY_TEXT_SHA256:
            yield ConfigProblem(
                path, "sha256 is the hash of an empty string", f"Create another: ferrule keys new {key.name}"
            )
    for digest, times in Counter(key.sha256 for key in config.keys).items():
        if times > 1:
            names = " and ".join(key.name for key in config.keys if key.sha256 == digest)
            yield ConfigProblem("keys", f"{names} are the same key", "Create one for each")


def _address_errors(config: Config) -> Iterator[ConfigProblem]:
    server = config.server
    if not is_loopback(server.host) and not config.requires_keys and not server.insecure:
        yield ConfigProblem(
            format_path(("server", "host")),
            f"{server.host} is reachable from other machines, but there are no keys",
            "Create one with `ferrule keys new NAME`, or set require_keys and create them with `ferrule keys create`, "
            "or give --insecure to serve everyone",
        )


def _source_errors(config: Config) -> Iterator[ConfigProblem]:
    for name in ("nats_key_file", "nats_credentials", "nats_inbox"):
        if getattr(config.sources, name) and not config.sources.nats:
            yield ConfigProblem(format_path(("sources", name)), "it needs nats", "Write nats = ... in [sources]")
    if config.sources.mcp_args and not config.sources.mcp_command:
        yield ConfigProblem("sources.mcp_args", "it needs mcp_command", "Give both or neither")
    if config.sources.mcp_credentials == CREDENTIALS_IN_LEDGER and not config.ledger_addresses:
        yield ConfigProblem(
            "sources.mcp_credentials", "the ledger is temporary, and tokens would end with it", 'Set ledger = "FILE"'
        )


def _webhook_errors(config: Config) -> Iterator[ConfigProblem]:
    server = config.server
    if not server.webhook_url:
        return
    if urlsplit(server.webhook_url).scheme not in ("http", "https") or not host_of(server.webhook_url):
        yield ConfigProblem("server.webhook_url", "it is not an http or https URL", "Write https://host/path")
    try:
        length = len(base64.b64decode(server.webhook_secret.removeprefix("whsec_"), validate=True))
    except ValueError:
        length = 0
    if not server.webhook_secret.startswith("whsec_") or not _MIN_SECRET <= length <= _MAX_SECRET:
        yield ConfigProblem(
            "server.webhook_secret",
            f"it is not whsec_ and the base64 of {_MIN_SECRET} to {_MAX_SECRET} bytes",
            "Create one: echo whsec_$(openssl rand -base64 32)",
        )


def _search_errors(config: Config) -> Iterator[ConfigProblem]:
    if config.search.usage_half_life_days < 0:
        yield ConfigProblem("search.usage_half_life_days", "it is less than 0", "Write 0 to rank by words alone")


def _quota_errors(config: Config) -> Iterator[ConfigProblem]:
    for quota in config.quotas:
        path = format_path(("quotas", quota.name))
        if quota.most <= 0:
            yield ConfigProblem(path, "most is not above 0", "Remove the quota, or the right to what it counts")
        if not quota.counts.is_of_tools and (quota.each is QuotaScope.TOOL or quota.tools != (_ALL,)):
            yield ConfigProblem(
                path, f"{quota.counts} do not belong to a tool", 'Count "calls" or "effects", or leave tools out'
            )
    store = config.quota_store
    scheme = store.address.partition("://")[0]
    if store.address and scheme not in SCHEMES:
        yield ConfigProblem("quota_store.address", "it is not an address", "Write valkey://HOST:PORT/0")
    if store.replicas < 1:
        yield ConfigProblem("quota_store.replicas", "it is less than 1", "Write how many gateways there are")


def _quota_warnings(config: Config) -> Iterator[str]:
    if not config.quotas:
        return
    parts = config.server.workers * config.quota_store.replicas
    if parts > 1 and not config.quota_store.address:
        yield (
            f"quotas are divided among {parts} processes, so that one may refuse what another has left; "
            "count together with [quota_store] address"
        )
    counts_money = any(quota.counts is QuotaUnit.MONEY for quota in config.quotas)
    unpriced = [engine.name for engine in config.engines if not (engine.input_price or engine.output_price)]
    if counts_money and unpriced:
        yield f"no quota counts the money of {', '.join(unpriced)}: without input_price and output_price it is 0"
    address = config.quota_store.address
    if address.startswith(("valkey://", "redis://")) and not is_loopback(host_of(address)):
        yield f"quotas are counted without TLS: {mask_secrets(address)}"


def _retention_errors(config: Config) -> Iterator[ConfigProblem]:
    days, audit_days = config.retention.conversation_days, config.retention.audit_days
    if days < 0:
        yield ConfigProblem("retention.conversation_days", "it is less than 0", "Write 0 to keep them for ever")
    if audit_days and (not days or audit_days < max(days, 1)):
        yield ConfigProblem(
            "retention.audit_days",
            "an audit log outlives its conversation",
            "Write at least conversation_days and at least 1, or 0 to keep it for ever",
        )


def _address_warnings(config: Config) -> Iterator[str]:
    server = config.server
    if is_loopback(server.host):
        return
    if not config.requires_keys:
        yield f"anyone who can reach {server.host} may use all models and tools (insecure, no keys)"
    yield "keys and answers are sent unencrypted unless a proxy in front of the gateway adds TLS"
    if not config.requires_keys and _ALL in server.hosts:
        yield "every Host header is accepted, so web pages can attack it by DNS rebinding; list names in server.hosts"


def _upstream_warnings(config: Config) -> Iterator[str]:
    for engine in config.engines:
        url = url_of(engine)
        if url.startswith("http://") and not is_loopback(host_of(url)):
            yield f"the engine {engine.name} is reached over plain http: {mask_secrets(url)}"
    nats = config.sources.nats
    if nats and not nats.startswith(("tls://", "wss://")) and not is_loopback(host_of(nats)):
        yield f"the bus is reached without TLS: {mask_secrets(nats)}"


def _key_warnings(config: Config) -> Iterator[str]:
    if not config.keys:
        return
    models = {model.name for model in config.served_models}
    for key in config.keys:
        for name in key.models:
            if not any(matches(f"model:{model}", f"model:{name}") for model in models):
                yield f"the key {key.name} may use the model {name}, which is not served"
        if config.sources.nats and key.tools and key.tenant != config.sources.nats_tenant:
            bus = config.sources.nats_tenant
            yield f"the key {key.name} belongs to the tenant {key.tenant} and cannot use the bus of {bus}"
    grants = [*config.keys, *config.roles]
    if has_tools(config) and not any(one.tools for one in grants):
        yield "no key may use the gateway's tools; set tools = [...] on a key"
    if _requires_approval(config) and not any(one.approve for one in grants):
        yield "no key may approve calls; they stay pending until `ferrule approvals` decides them in the ledger"


def _operator_warnings(config: Config) -> Iterator[str]:
    grants = [*config.keys, *config.roles]
    if any(one.admin for one in grants) and not (is_one_tenant(config.tenants) or any(one.operator for one in grants)):
        yield (
            "no key is an operator, and with several tenants an admin may not read /metrics, reload, or see errors of "
            "engines; set operator = true on a key"
        )


def _tool_warnings(config: Config, side_effect_tools: list[str]) -> Iterator[str]:
    if not has_tools(config):
        return
    sources = config.sources
    listed = ", ".join(side_effect_tools[:5]) + (", ..." if len(side_effect_tools) > 5 else "")
    has_remote = sources.mcp_config or sources.mcp_command or sources.nats
    subject = listed or "tools of MCP servers or of the bus" if has_remote or side_effect_tools else ""
    if subject and not config.ledger:
        yield f"{subject} may have side effects, but the ledger is temporary; give --ledger ferrule.db"
    if subject and not config.tools.tools_require_confirmation_for_side_effects:
        setting = "tools_require_confirmation_for_side_effects = false"
        yield f"{subject} may have side effects and run without approval ({setting})"
    if (sources.mcp_config or sources.mcp_command) and not sources.mcp_pins:
        yield "definitions of MCP tools are not pinned across restarts; name a file in sources.mcp_pins"
    if sources.nats and not sources.nats_key_file and sources.nats_tenant != _LOCAL:
        yield f"calls of the tenant {sources.nats_tenant} need a key: sources.nats_key_file, or FERRULE_BUS_KEY"


def _worker_warnings(config: Config) -> Iterator[str]:
    if config.server.workers > 1 and any(parse_engine_spec(engine.use).kind in IN_PROCESS for engine in config.engines):
        yield "each worker loads its own copy of the model; let one llama-server or vLLM serve all workers"


def _requires_approval(config: Config) -> bool:
    return has_tools(config) and config.tools.tools_require_confirmation_for_side_effects
