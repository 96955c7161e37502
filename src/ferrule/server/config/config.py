"""Config: everything that a gateway is told before it starts, as frozen values with their defaults. Reads no file.

`settings.tables` makes the tables of ferrule.toml and the names in the environment out of these classes, and the
page of settings prints the sentence under each field: a new field with its sentence is a new setting, no more needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ferrule.core.choice import ChoicePolicy
from ferrule.run.tool_settings import ToolSettings

MEGABYTE = 1_000_000
EVERY_HOST = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where the gateway is reached, and by whom."""

    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 is every one of this machine, and then keys are needed."""
    port: int = 8000
    """The port to listen on; 0 is any that is free."""
    workers: int = 1
    """How many processes serve."""
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    """The names in `Host` that are answered to, "*" for all; the default is all where `host` is beyond this machine."""
    origins: tuple[str, ...] = ()
    """The web pages that may call, such as `https://chat.example.com`."""
    drain_seconds: float = 30.0
    """How long answers under way may take to end when the gateway is told to stop."""
    metrics_open: bool = False
    """Whether /metrics is shown to who has no key."""
    insecure: bool = False
    """Whether everybody who reaches the address is served where there are no keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request, one key and the whole gateway may take. Seconds and bytes."""

    body_bytes: int = 10 * MEGABYTE
    """How long the body of a request may be."""
    body_seconds: float = 30.0
    """How long a body may take to arrive."""
    send_seconds: float = 60.0
    """How long a reader may leave a piece unread before it is left."""
    first_seconds: float = 300.0
    """How long an answer may take until its first event."""
    between_seconds: float = 120.0
    """How long an answer may pause between two events."""
    total_seconds: float = 3600.0
    """How long an answer may take in all."""
    keep_alive_seconds: float = 15.0
    """How often a stream in which nothing happens says that it is still there."""
    resume_seconds: float = 120.0
    """How long a turn of a WebSocket lives on after its connection was lost, or after it ended."""
    resume_bytes: int = MEGABYTE
    """How much of a turn's last frames is kept for a client that comes back."""
    max_tokens: int = 4096
    """What a request that names no budget is given."""
    most_tokens: int = 131_072
    """The largest budget that a request may name."""
    streams: int = 4096
    """How many answers may be under way at once."""
    connections: int = 8192
    """How many connections may be open at once; a request on one more is answered with 503."""
    header_bytes: int = 65_536
    """How long the head of a request may be: its address and all its headers."""
    header_seconds: float = 10.0
    """How long a head may take to arrive."""
    query_bytes: int = 8192
    """How long the part of an address after the question mark may be."""
    json_depth: int = 64
    """How deeply lists and objects of a body may be nested."""
    json_values: int = 200_000
    """How many values a body may hold."""
    messages: int = 4096
    """How many messages a request may hold."""
    tools: int = 512
    """How many tools a request may bring."""
    schema_bytes: int = 2 * MEGABYTE
    """How long all the schemas that a request brings may be together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """One engine: what `load_engine` takes."""

    name: str
    use: str = field(repr=False)
    """What generates, such as `llama:model.gguf` or `vllm:http://127.0.0.1:8001`. Its options may stand beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model's name, and the engines that serve it: the first that is well is asked, the others stand behind it."""

    name: str
    engines: tuple[str, ...]
    """The engines that serve it, by name: the first that is well is asked, the others stand behind it."""
    balanced: bool = False
    """Whether the engine with the least to do is asked, instead of the first that is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesConfig:
    """Where the gateway's own tools come from."""

    functions: tuple[str, ...] = ()
    """Python functions, each place as `module:name` or `file.py:name`."""
    mcp_config: str = ""
    """An mcp.json with servers."""
    mcp_command: str = ""
    """One MCP server to start, by its program; its tools are called `mcp_...`."""
    mcp_args: tuple[str, ...] = ()
    """What that program is started with."""
    mcp_trusted: bool = False
    """Whether that server's word that a tool only reads is believed."""
    mcp_tool_refresh_seconds: float = 30.0
    """How often lists of tools are read again, besides when a server says so."""
    mcp_pins: str = ""
    """The file that keeps which definitions of MCP tools were agreed to; a changed one is not offered."""
    nats: str = ""
    """The NATS server whose capabilities are offered, such as `nats://127.0.0.1:4222`."""
    nats_tenant: str = "local"
    """Whose capabilities."""
    nats_key_file: str = ""
    """The key that calls on the bus are signed with; without it, the text in `FERRULE_BUS_KEY`."""
    nats_credentials: str = ""
    """A .creds file, where the NATS server wants one."""
    nats_inbox: str = ""
    """Where answers come to, if the NATS server's permissions name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyConfig:
    """Who may come in. `sha256` is of the key's text; the key itself is nowhere written."""

    name: str
    sha256: str = field(repr=False)
    """The SHA-256 of the key's text, in hexadecimal digits; `ferrule keys new` writes it."""
    tenant: str = "local"
    """Whose data and tools; tenants see nothing of each other."""
    models: tuple[str, ...] = ("*",)
    """The models that it may use, "*" for all."""
    tools: tuple[str, ...] = ()
    """The gateway's tools that it may use, "*" for all."""
    approve: bool = False
    """Whether it may decide on calls that wait for leave."""
    admin: bool = False
    """Whether it may see how the gateway is doing."""
    rate: int = 0
    """Requests a minute, at most; 0 is no limit."""
    width: int = 0
    """Answers under way at once, at most; 0 is no limit."""


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
    ledger: str = field(default="", repr=False)
    """A SQLite file, or `postgresql://...`; empty keeps it in a file of its own, for as long as the process lives."""
    tool_choice_policy: ChoicePolicy = ChoicePolicy.AUTO
    """What becomes of requests that leave calling to the model: `auto`, `required_first_hop` or `required_always`."""
    approval_patience_seconds: float = 0.0
    """How long an answer waits for leave before it ends without it."""
    lease_seconds: float = 10.0
    """How long a process may be silent before another takes up its conversations."""

    @property
    def admits_own_pages(self) -> bool:
        """Whether a page that the gateway itself sent may call it.

        Not where every name is answered to and nobody needs a key: there any page whose name is made to lead here is
        of the same origin, and could do all that a person on this machine can.
        """
        return bool(self.keys) or EVERY_HOST not in self.listening.hosts

    @property
    def served(self) -> tuple[ModelConfig, ...]:
        """Models, each with its engines; an engine that no model names is a model by its own name."""
        named = {engine for model in self.models for engine in model.engines}
        own = [ModelConfig(name=one.name, engines=(one.name,)) for one in self.engines if one.name not in named]
        return (*self.models, *own)
