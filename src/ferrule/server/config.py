"""Config: everything that a gateway is told before it starts, as frozen values with their defaults. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ferrule.run.settings import ToolSettings

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where the gateway is reached. `hosts` are the names that it answers to, `origins` the pages that may call it."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    origins: tuple[str, ...] = ()
    drain_seconds: float = 30.0
    """How long answers under way may take to end when the gateway is told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request, one key and the whole gateway may take. Seconds and bytes."""

    body_bytes: int = 10 * MEGABYTE
    body_seconds: float = 30.0
    send_seconds: float = 60.0
    """How long a reader may leave a piece unread before it is left."""
    first_seconds: float = 300.0
    between_seconds: float = 120.0
    total_seconds: float = 3600.0
    """Of an answer: until its first event, between two of them, and for all of it."""
    keep_alive_seconds: float = 15.0
    max_tokens: int = 4096
    """What a request that names no budget is given."""
    streams: int = 4096
    """How many answers may be under way at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """One engine: what `engines.pick` takes."""

    name: str
    use: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model's name, and the engines that serve it: the first that is well is asked, the others stand behind it."""

    name: str
    engines: tuple[str, ...]
    balanced: bool = False
    """Whether engines take turns instead of standing behind each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesConfig:
    """Where the gateway's own tools come from."""

    functions: tuple[str, ...] = ()
    """`module:name`, as `ferrule worker` takes them."""
    mcp_config: str = ""
    mcp_command: str = ""
    mcp_args: tuple[str, ...] = ()
    mcp_trusted: bool = False
    mcp_tool_refresh_seconds: float = 30.0
    mcp_pins: str = ""
    nats: str = ""
    nats_tenant: str = "local"
    nats_key_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyConfig:
    """Who may come in. `sha256` is of the key's text; the key itself is nowhere written.

    `models` and `tools` are names, or "*" for all; none is none. `rate` is requests a minute, `width` answers at once;
    0 is no limit.
    """

    name: str
    sha256: str
    tenant: str = "local"
    models: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ()
    approve: bool = False
    admin: bool = False
    rate: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole. Without keys everybody on this machine is the principal "local", and only this machine is served."""

    engines: tuple[EngineConfig, ...]
    models: tuple[ModelConfig, ...] = ()
    listening: Listening = field(default_factory=Listening)
    limits: Limits = field(default_factory=Limits)
    sources: SourcesConfig = field(default_factory=SourcesConfig)
    tools: ToolSettings = field(default_factory=ToolSettings)
    keys: tuple[KeyConfig, ...] = ()
    ledger: str = ""
    """A SQLite file or postgresql://...; empty keeps it in memory, for as long as the process lives."""
    approval_patience_seconds: float = 0.0
    """How long an answer waits for leave before it ends without it."""
    lease_seconds: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def served(self) -> tuple[ModelConfig, ...]:
        """Models, each with its engines; an engine that no model names is a model by its own name."""
        named = {engine for model in self.models for engine in model.engines}
        own = [ModelConfig(name=one.name, engines=(one.name,)) for one in self.engines if one.name not in named]
        return (*self.models, *own)
