"""Sense: whether a configuration can work, and what in it is unwise. Opens nothing and reaches nobody.

What a value alone can be wrong in was found when it was read; here values are held beside each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ferrule.engines.registry import check, parts_of
from ferrule.errors import DefinitionError
from ferrule.server.addresses import host_of, is_loopback, without_secrets
from ferrule.server.config.config import Config, EngineConfig
from ferrule.server.config.layers import Mistake, meant, shown

_ALL = "*"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NO_TEXT = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_LOCAL = "local"


def impossible(config: Config) -> list[Mistake]:
    """What keeps a gateway from being started."""
    return [*_of_engines(config), *_of_models(config), *_of_keys(config), *_of_address(config), *_of_bus(config)]


def unwise(config: Config, effects: Iterable[str] = ()) -> list[str]:
    """What a person should know before he serves this. `effects` are tools that are known to change the world."""
    return [
        *_unwise_address(config),
        *_unwise_upstreams(config),
        *_unwise_keys(config),
        *_unwise_tools(config, list(effects)),
        *_unwise_workers(config),
    ]


def has_tools(config: Config) -> bool:
    named = config.sources
    has_any = named.functions or named.mcp_config or named.mcp_command or named.nats
    return bool(has_any) and config.tools.tools_enabled


def url_of(engine: EngineConfig) -> str:
    """Where an engine is asked; empty for one that is not asked over a network, or at an address of its own."""
    parts = parts_of(engine.use)
    return parts.options.get("url", "") or (parts.on if "://" in parts.on else "")


def _of_engines(config: Config) -> Iterator[Mistake]:
    if not config.engines:
        yield Mistake(
            "", "there is no engine", "Give --engine llama:model.gguf, or write [engines.NAME] with use = ..."
        )
    for engine in config.engines:
        try:
            check(engine.use)
        except DefinitionError as refusal:
            yield Mistake(shown(("engines", engine.name)), refusal.message, refusal.hint.rstrip("."))


def _of_models(config: Config) -> Iterator[Mistake]:
    known = [engine.name for engine in config.engines]
    for model in config.models:
        where = shown(("models", model.name))
        if not model.engines:
            yield Mistake(where, "no engine serves it", f"Name some in engines: {', '.join(known)}")
        for name in model.engines:
            if name not in known:
                yield Mistake(where, f"there is no engine {name!r}", meant(name, known, "engines"))
    for name, times in Counter(model.name for model in config.served).items():
        if times > 1:
            # An engine of its own, beside a model of the same name that other engines serve.
            yield Mistake(
                shown(("models", name)), f"the engine {name!r} would be a second model of that name", "Rename it"
            )


def _of_keys(config: Config) -> Iterator[Mistake]:
    for key in config.keys:
        where = shown(("keys", key.name))
        if not _SHA256.fullmatch(key.sha256):
            yield Mistake(
                where, "sha256 is not 64 hexadecimal digits in small letters", f"Make it: ferrule keys new {key.name}"
            )
        elif key.sha256 == _NO_TEXT:
            yield Mistake(where, "sha256 is that of an empty text", f"Make another: ferrule keys new {key.name}")
    for digest, times in Counter(key.sha256 for key in config.keys).items():
        if times > 1:
            names = " and ".join(key.name for key in config.keys if key.sha256 == digest)
            yield Mistake("keys", f"{names} are the same key", "Give each its own")


def _of_address(config: Config) -> Iterator[Mistake]:
    listening = config.listening
    if not is_loopback(listening.host) and not config.keys and not listening.insecure:
        yield Mistake(
            shown(("server", "host")),
            f"{listening.host} is reached from beyond this machine, and there are no keys",
            "Make one with `ferrule keys new NAME`, or say --insecure to serve everybody",
        )


def _of_bus(config: Config) -> Iterator[Mistake]:
    for name in ("nats_key_file", "nats_credentials", "nats_inbox"):
        if getattr(config.sources, name) and not config.sources.nats:
            yield Mistake(shown(("sources", name)), "there is no nats that it is for", "Write nats = ... in [sources]")
    if config.sources.mcp_args and not config.sources.mcp_command:
        yield Mistake("sources.mcp_args", "there is no mcp_command that they are for", "Give it, or leave them out")


def _unwise_address(config: Config) -> Iterator[str]:
    listening = config.listening
    if is_loopback(listening.host):
        return
    if not config.keys:
        yield f"everybody who reaches {listening.host} may use all models and tools (insecure, and no keys)"
    yield "keys and answers travel unencrypted from beyond this machine, unless a proxy with TLS stands in front"
    if not config.keys and _ALL in listening.hosts:
        yield "any Host is answered to, so web pages can reach it by a name of their own; list names in server.hosts"


def _unwise_upstreams(config: Config) -> Iterator[str]:
    for engine in config.engines:
        url = url_of(engine)
        if url.startswith("http://") and not is_loopback(host_of(url)):
            yield f"the engine {engine.name} is asked over plain http: {without_secrets(url)}"
    nats = config.sources.nats
    if nats and not nats.startswith(("tls://", "wss://")) and not is_loopback(host_of(nats)):
        yield f"the bus is reached without TLS: {without_secrets(nats)}"


def _unwise_keys(config: Config) -> Iterator[str]:
    if not config.keys:
        return
    models = {model.name for model in config.served}
    for key in config.keys:
        for name in key.models:
            if name != _ALL and name not in models:
                yield f"the key {key.name} may use the model {name}, which is not served"
        if config.sources.nats and key.tools and key.tenant != config.sources.nats_tenant:
            bus = config.sources.nats_tenant
            yield f"the key {key.name} is of the tenant {key.tenant} and cannot use the bus of {bus}"
    if has_tools(config) and not any(key.tools for key in config.keys):
        yield "no key may use the gateway's tools; give one tools = [...]"
    if _asks_for_leave(config) and not any(key.approve for key in config.keys):
        yield "no key may approve; calls that need leave wait until `ferrule approvals` decides on the ledger"


def _unwise_tools(config: Config, effects: list[str]) -> Iterator[str]:
    if not has_tools(config):
        return
    named = config.sources
    told = ", ".join(effects[:5]) + (", ..." if len(effects) > 5 else "")
    foreign = named.mcp_config or named.mcp_command or named.nats
    who = told or "tools of MCP servers or of the bus" if foreign or effects else ""
    if who and not config.ledger:
        yield f"there is no ledger that lasts, and {who} may change the world; give --ledger ferrule.db"
    if who and not config.tools.tools_require_confirmation_for_side_effects:
        why = "tools_require_confirmation_for_side_effects = false"
        yield f"{who} may change the world without anybody's leave ({why})"
    if (named.mcp_config or named.mcp_command) and not named.mcp_pins:
        yield "definitions of MCP tools are not pinned over a restart; name a file in sources.mcp_pins"
    if named.nats and not named.nats_key_file and named.nats_tenant != _LOCAL:
        yield f"calls of the tenant {named.nats_tenant} need a key: sources.nats_key_file, or FERRULE_BUS_KEY"


def _unwise_workers(config: Config) -> Iterator[str]:
    if config.listening.workers > 1 and any(parts_of(engine.use).kind == "llama" for engine in config.engines):
        yield "each worker loads the model into memory for itself; let a llama-server or vLLM serve them all"


def _asks_for_leave(config: Config) -> bool:
    return has_tools(config) and config.tools.tools_require_confirmation_for_side_effects
