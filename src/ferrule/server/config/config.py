"""Config: all settings of a gateway, as frozen values with defaults. Reads no file.

`config.tables` derives the tables of ferrule.toml and the environment variables from these classes, and the settings
reference prints the docstring of each field. To add a setting, add a field with a docstring.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ferrule.core.byte_cache import DEFAULT_BYTES
from ferrule.core.request import ChoicePolicy
from ferrule.run.approval_policy import ApprovalRule
from ferrule.run.executor import ToolSettings
from ferrule.schema.tool_decorator import Isolation

MEGABYTE = 1_000_000
EVERY_HOST = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Where the gateway listens, and which requests it accepts."""

    host: str = "127.0.0.1"
    """The address to listen on. 0.0.0.0 is every address of this machine and requires keys."""
    port: int = 8000
    """The port to listen on; 0 selects a free port."""
    workers: int = 1
    """The number of worker processes."""
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    """The accepted values of the `Host` header, "*" for all. On a public `host` the default is all."""
    origins: tuple[str, ...] = ()
    """The origins of web pages that may call the gateway, such as `https://chat.example.com`."""
    drain_seconds: float = 30.0
    """How long answers in progress may take to finish when the gateway stops."""
    metrics_open: bool = False
    """Whether /metrics needs no key."""
    webhook_url: str = ""
    """Where to report conversations that have ended after an approval; empty reports none."""
    webhook_secret: str = field(default="", repr=False)
    """The secret that signs webhooks, as `whsec_` and base64, in the form of Standard Webhooks."""
    webhook_retry_seconds: float = 5.0
    """The pause after a webhook's first failed attempt. It doubles with each attempt."""
    insecure: bool = False
    """Whether a gateway without keys may serve everyone who can reach its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits for one request, one connection and the whole gateway, in seconds and bytes."""

    body_bytes: int = 10 * MEGABYTE
    """The longest request body."""
    body_seconds: float = 30.0
    """How long a request body may take to arrive."""
    send_seconds: float = 60.0
    """How long a client may leave a chunk unread before it is disconnected."""
    first_seconds: float = 300.0
    """How long the first event of an answer may take."""
    between_seconds: float = 120.0
    """How long an answer may pause between two events."""
    total_seconds: float = 3600.0
    """How long an answer may take in total."""
    keep_alive_seconds: float = 15.0
    """How often an idle stream sends a keep-alive."""
    resume_seconds: float = 120.0
    """How long a WebSocket turn can be resumed after its connection is lost, or after the turn ends."""
    resume_bytes: int = MEGABYTE
    """How many bytes of a turn's last frames are kept for a client that reconnects."""
    max_tokens: int = 4096
    """The token budget of a request that names none."""
    most_tokens: int = 131_072
    """The largest token budget that a request may name."""
    streams: int = 4096
    """The maximum number of simultaneous answers."""
    connections: int = 8192
    """The maximum number of open connections; further requests get status 503."""
    header_bytes: int = 65_536
    """The longest request head: the URL and all headers."""
    header_seconds: float = 10.0
    """How long a request head may take to arrive."""
    query_bytes: int = 8192
    """The longest query string."""
    json_depth: int = 64
    """The maximum nesting depth of lists and objects in a request body."""
    json_values: int = 200_000
    """The maximum number of JSON values in a request body."""
    messages: int = 4096
    """The maximum number of messages in a request."""
    tools: int = 512
    """The maximum number of tools in a request."""
    schema_bytes: int = 2 * MEGABYTE
    """The maximum total length of all schemas in a request."""
    cache_bytes: int = DEFAULT_BYTES
    """How much memory compiled grammars, schemas and other caches may use in each worker process, as estimated."""


class TraceText(StrEnum):
    """How much text of a request a trace keeps."""

    NONE = "none"
    BEGINNING = "beginning"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesConfig:
    """What is recorded of requests, for people to look at. Conversations in the ledger are complete regardless."""

    text: TraceText = TraceText.BEGINNING
    """How much text is kept of each request: `none`, the `beginning` of its messages and its title, or `all`."""
    days: float = 30.0
    """How long traces are kept after their last request; 0 records none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """How long the ledger keeps conversations. By default it keeps everything."""

    conversation_days: float = 0.0
    """How long a conversation is kept after its last change; 0 is for ever. In Postgres, up to six days longer."""
    audit_days: float = 0.0
    """How long the audit log of a removed conversation is kept, after the last change before; 0 is for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """One engine. `use` is the string that `load_engine` accepts."""

    name: str
    use: str = field(repr=False)
    """The engine, such as `llama:model.gguf` or `vllm:http://127.0.0.1:8001`. Options are keys beside it."""
    input_price: float = 0.0
    """The price of a million input tokens, in any currency. Traces show the cost of engines that have prices."""
    output_price: float = 0.0
    """The price of a million output tokens, in the same currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model and the engines that serve it. The first healthy engine is used; the others are for failover."""

    name: str
    engines: tuple[str, ...]
    """The names of the engines that serve the model. The first healthy one is used; the others are for failover."""
    balanced: bool = False
    """Whether the engine with the fewest active requests is used, instead of the first healthy one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesConfig:
    """The sources of the gateway's own tools."""

    functions: tuple[str, ...] = ()
    """Python functions, each as `module:name` or `file.py:name`."""
    functions_threads: int = 16
    """How many calls of one plain function may run at once for one tenant."""
    functions_tenant_threads: int = 64
    """How many calls of all plain functions together may run at once for one tenant."""
    functions_isolation: Isolation = Isolation.NONE
    """`process` runs functions in worker processes, which are killed at their call's deadline."""
    functions_processes: int = 4
    """How many worker processes one tenant may use at once."""
    functions_memory_bytes: int = 0
    """How much address space a worker process may have; 0 is no limit."""
    mcp_config: str = ""
    """An mcp.json file with MCP servers."""
    mcp_command: str = ""
    """The command of one MCP server to start. Its tools get the prefix `mcp_`."""
    mcp_args: tuple[str, ...] = ()
    """The arguments of that command."""
    mcp_trusted: bool = False
    """Whether to believe MCP servers that declare a tool read-only. A `trusted` in the mcp.json has precedence."""
    mcp_tool_refresh_seconds: float = 30.0
    """How often tool lists are refreshed, in addition to the changes that servers report."""
    mcp_pins: str = ""
    """The file with the accepted definitions of MCP tools. A tool whose definition changes is not offered."""
    nats: str = ""
    """The NATS server whose capabilities are offered, such as `nats://127.0.0.1:4222`."""
    nats_tenant: str = "local"
    """The tenant whose capabilities are offered."""
    nats_key_file: str = ""
    """The file with the key that signs calls on the bus. If empty, `FERRULE_BUS_KEY` holds the key."""
    nats_credentials: str = ""
    """A .creds file, if the NATS server requires one."""
    nats_inbox: str = ""
    """The inbox prefix for replies, if the NATS server's permissions require one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyConfig:
    """An API key. Only the SHA-256 of its text is stored, never the key itself."""

    name: str
    sha256: str = field(repr=False)
    """The SHA-256 of the key's text in hexadecimal; `ferrule keys new` prints it."""
    tenant: str = "local"
    """The tenant of the key. Tenants cannot see each other's data and tools."""
    models: tuple[str, ...] = ("*",)
    """The models that the key may use, "*" for all."""
    tools: tuple[str, ...] = ()
    """The gateway's tools that the key may use, "*" for all."""
    approve: bool = False
    """Whether the key may approve or deny pending calls."""
    admin: bool = False
    """Whether the key may see the status and metrics of the gateway."""
    live_arguments: bool = False
    """Whether calls are streamed to this key while they are written. Then a call can be begun and not finished."""
    rate: int = 0
    """The maximum number of requests per minute; 0 is no limit."""
    width: int = 0
    """The maximum number of simultaneous answers; 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. Without keys, only this machine is served, and every client is the principal "local"."""

    engines: tuple[EngineConfig, ...]
    models: tuple[ModelConfig, ...] = ()
    server: ServerConfig = field(default_factory=ServerConfig)
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    sources: SourcesConfig = field(default_factory=SourcesConfig)
    tools: ToolSettings = field(default_factory=ToolSettings)
    keys: tuple[KeyConfig, ...] = ()
    approvals: tuple[ApprovalRule, ...] = ()
    traces: TracesConfig = field(default_factory=TracesConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    ledger: str | tuple[str, ...] = field(default="", repr=False)
    """A SQLite file, or `postgresql://...`. A list divides the tenants among several databases; only append to it. If
    empty, the ledger is a temporary file that is deleted on exit."""
    ledger_connections: int = 4
    """How many statements a process runs in each Postgres database at the same time. It opens up to three
    connections more than that: two for writing, and one that says that it is alive."""
    tool_choice_policy: ChoicePolicy = ChoicePolicy.AUTO
    """The policy for requests with tool_choice auto: `auto`, `required_first_hop` or `required_always`."""
    approval_patience_seconds: float = 0.0
    """How long an answer waits for an approval before it ends without one."""
    lease_seconds: float = 10.0
    """How long a process may be unresponsive before another takes over its conversations."""

    @property
    def ledger_addresses(self) -> tuple[str, ...]:
        """The address of each database of the ledger; none if it is temporary."""
        addresses = (self.ledger,) if isinstance(self.ledger, str) else self.ledger
        return tuple(filter(None, addresses))

    @property
    def allows_own_pages(self) -> bool:
        """Whether pages that the gateway itself serves may call it.

        Not if every host name is accepted and no key is needed: any page can then reach the gateway under its own name
        (DNS rebinding), counts as same-origin, and could do everything that a user of this machine can.
        """
        return bool(self.keys) or EVERY_HOST not in self.server.hosts

    @property
    def served_models(self) -> tuple[ModelConfig, ...]:
        """All models. An engine that no model names is a model under its own name."""
        used = {engine for model in self.models for engine in model.engines}
        unnamed = [ModelConfig(name=one.name, engines=(one.name,)) for one in self.engines if one.name not in used]
        return (*self.models, *unnamed)
