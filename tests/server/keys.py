"""Keys for tests, and a configuration that has them."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any

from ferrule.server.config.config import Config, EngineConfig, GatewayLimits, KeyConfig


def key(name: str, text: str = "", **more: Any) -> KeyConfig:
    """A key whose text is its name unless given."""
    return KeyConfig(name=name, sha256=hashlib.sha256((text or name).encode()).hexdigest(), **more)


def config_with_keys(*keys: KeyConfig, limits: GatewayLimits | None = None, **server: Any) -> Config:
    config = Config(engines=(EngineConfig(name="e0", use="e0"),), keys=keys, limits=limits or GatewayLimits())
    return replace(config, server=replace(config.server, **server))


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def key_protocol(text: str) -> str:
    """A key, encoded as a WebSocket subprotocol."""
    return "ferrule.key." + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
