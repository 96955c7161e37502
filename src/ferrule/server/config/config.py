"""Config: all settings of a gateway, as frozen values with defaults. Reads no file.

`config.tables` derives the tables of ferrule.toml and the environment variables from these classes, and the settings
reference prints the docstring of each field. To add a setting, add a field with a docstring.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain

from ferrule.core.byte_cache import DEFAULT_BYTES
from ferrule.core.request import ChoicePolicy
from ferrule.run.approval_policy import ApprovalRule
from ferrule.run.deferral import DeferralSettings
from ferrule.run.executor import ToolSettings
from ferrule.schema.tool_decorator import Isolation
from ferrule.server.config.identity import IdentityConfig, RoleConfig
from ferrule.server.config.quotas import QuotaConfig, QuotaStoreConfig

MEGABYTE = 1_000_000
EVERY_HOST = "*"
CREDENTIALS_IN_LEDGER = "ledger"
"""The `mcp_credentials` that names no file."""


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
    require_keys: bool = False
    """Whether every request needs a key even if this file has none: see `ferrule keys create`. With keys in the file,
    or once a key was created in the ledger, every request needs one anyway."""
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
    """How long an engine may be silent before its first output. Reading more of the prompt ends the silence."""
    silent_first_seconds: float = 1800.0
    """The same for engines that do not report how far they have read (vLLM, SGLang)."""
    between_seconds: float = 120.0
    """How long an engine may be silent after its first output."""
    total_seconds: float = 0.0
    """How long an answer may take in total; 0 is no limit while the engine makes progress."""
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
    media_parts: int = 100
    """The maximum number of images, recordings and files in a request, its history included."""
    media_bytes: int = 8 * MEGABYTE
    """The maximum length of one image, recording or file, decoded."""
    media_total_bytes: int = 40 * MEGABYTE
    """The maximum length of all of them together, decoded."""
    tools: int = 512
    """The maximum number of tools in a request."""
    deferred_tools: int = 10_000
    """The maximum number of tools in a request whose tools are deferred: by the client, or by [tool_search]."""
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
    tool_search_above_tokens: int = -1
    """`above_tokens` of [tool_search] for the models that this engine serves, 0 for none; -1 takes the gateway's. Of
    several engines that serve one model the least counts."""


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
    mcp_allow: tuple[str, ...] = ()
    """Patterns of the tools of `mcp_command` that are offered, such as `get_*`. Without any, all are."""
    mcp_deny: tuple[str, ...] = ()
    """Patterns of the tools of `mcp_command` that are not offered."""
    mcp_read_only: tuple[str, ...] = ()
    """Patterns of the tools of `mcp_command` that have no side effects, whatever it declares. `*` means all."""
    mcp_tool_refresh_seconds: float = 30.0
    """How often tool lists are read. Servers that report changes are asked twenty times less."""
    mcp_question_seconds: float = 300.0
    """How long a question of an MCP server waits for somebody who may approve; 0 declines all questions. A call whose
    account is not signed in waits as long for its login."""
    mcp_pins: str = ""
    """The file with the accepted definitions of MCP tools. A tool whose definition changes is not offered."""
    mcp_credentials: str = ""
    """The file with the tokens of `ferrule mcp login`. Empty is the one in the folder for configuration of the user.
    `ledger` keeps them in the ledger, encrypted with the key of the environment variable FERRULE_CREDENTIALS_KEY."""
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
class SearchConfig:
    """How the gateway finds its own tools by a text."""

    usage_half_life_days: float = 14.0
    """Tools that a tenant's models call with success come a little earlier in its searches, before tools whose words
    fit about equally well. After this time a call counts half; 0 ranks by words alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedConfig:
    """The gateway's tools that stand for tools of OpenAI's service in /v1/responses, each by its name in /v1/tools.

    A client that declares such a tool gets that of the gateway, if its key may use it. Without one it is left out.
    """

    web_search: str = ""
    """The tool that is called for `web_search`."""
    file_search: str = ""
    """The tool that is called for `file_search`."""
    code_interpreter: str = ""
    """The tool that is called for `code_interpreter`."""
    image_generation: str = ""
    """The tool that is called for `image_generation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiConfig:
    """The operations of an OpenAPI document as tools. Their names begin with the name of the table."""

    name: str
    document: str
    """The OpenAPI 3 document: a JSON or YAML file."""
    server: str = ""
    """The only server that requests go to. If empty, it is the first one that the document names."""
    key_env: str = ""
    """The environment variable with the API's key."""
    key_header: str = "authorization"
    """The header that carries the key."""
    key_query: str = ""
    """The query parameter that carries the key, instead of a header."""
    key_prefix: str = "Bearer "
    """What stands before the key in the header."""
    timeout_seconds: float = 30.0
    """How long a request may take."""
    max_bytes: int = 1024 * 1024
    """The largest answer that is read; a larger one is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyConfig:
    """An API key. Only the SHA-256 of its text is stored, never the key itself."""

    name: str
    sha256: str = field(repr=False)
    """The SHA-256 of the key's text in hexadecimal; `ferrule keys new` prints it."""
    tenant: str = "local"
    """The tenant of the key. Tenants cannot see each other's data and tools."""
    models: tuple[str, ...] = ("*",)
    """Patterns of the models that the key may use, "*" for all."""
    tools: tuple[str, ...] = ()
    """Patterns of the gateway's tools that the key may use, such as `get_*`; "*" for all."""
    sources: tuple[str, ...] = ("*",)
    """Patterns of the sources whose tools the key may use: the names of MCP servers, OpenAPI tables and so on."""
    approve: bool = False
    """Whether the key may approve or deny pending calls."""
    admin: bool = False
    """Whether the key may see what its whole tenant does, and manage the keys of its tenant. While the gateway has only
    one tenant, it may do what `operator` allows too."""
    operator: bool = False
    """Whether the key operates the gateway: it may reload the configuration, and see the metrics, and the errors and
    addresses of engines and sources, whichever tenant they are from."""
    live_arguments: bool = False
    """Whether calls are streamed to this key while they are written. Then a call can be begun and not finished."""
    rate: int = 0
    """The maximum number of requests per minute; 0 is no limit."""
    width: int = 0
    """The maximum number of simultaneous answers; 0 is no limit."""


def is_one_tenant(tenants: Collection[str]) -> bool:
    """Whether tenants, which may be patterns, are at most one."""
    return len(tenants) <= 1 and not any("*" in one for one in tenants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. Without keys, only this machine is served, and every client is the principal "local"."""

    engines: tuple[EngineConfig, ...]
    models: tuple[ModelConfig, ...] = ()
    server: ServerConfig = field(default_factory=ServerConfig)
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    sources: SourcesConfig = field(default_factory=SourcesConfig)
    openapi: tuple[OpenApiConfig, ...] = ()
    tools: ToolSettings = field(default_factory=ToolSettings)
    search: SearchConfig = field(default_factory=SearchConfig)
    tool_search: DeferralSettings = field(default_factory=DeferralSettings)
    hosted: HostedConfig = field(default_factory=HostedConfig)
    keys: tuple[KeyConfig, ...] = ()
    identity: tuple[IdentityConfig, ...] = ()
    roles: tuple[RoleConfig, ...] = ()
    quotas: tuple[QuotaConfig, ...] = ()
    quota_store: QuotaStoreConfig = field(default_factory=QuotaStoreConfig)
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
    loop_guard: bool = True
    """Whether calls that clients run are kept from looping: the third time that a call returns the same result, the
    model reads a hint, and the fifth time the call is not made. `ferrule-loop` in the response says so."""
    approval_patience_seconds: float = 0.0
    """How long an answer waits for an approval before it ends without one."""
    lease_seconds: float = 10.0
    """How long a process may be unresponsive before another takes over its conversations."""

    def tool_search_of(self, model: str) -> DeferralSettings:
        """The settings of a model's tool search: the gateway's, or those of its engines."""
        names = next((one.engines for one in self.served_models if one.name == model), ())
        own = [one.tool_search_above_tokens for one in self.engines if one.name in names]
        own = [one for one in own if one >= 0]
        return replace(self.tool_search, above_tokens=min(own)) if own else self.tool_search

    @property
    def uses_tool_search(self) -> bool:
        return self.tool_search.above_tokens > 0 or any(one.tool_search_above_tokens > 0 for one in self.engines)

    @property
    def ledger_addresses(self) -> tuple[str, ...]:
        """The address of each database of the ledger; none if it is temporary."""
        addresses = (self.ledger,) if isinstance(self.ledger, str) else self.ledger
        return tuple(filter(None, addresses))

    @property
    def requires_keys(self) -> bool:
        """Whether every request needs a key or a token, whatever the ledger has."""
        return bool(self.keys or self.identity) or self.server.require_keys

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants of its keys and of the callers with tokens, some of them as patterns."""
        of_callers = [one.tenants if one.tenant_claim else (one.tenant,) for one in self.identity]
        return frozenset((*(key.tenant for key in self.keys), *chain.from_iterable(of_callers)))

    @property
    def allows_own_pages(self) -> bool:
        """Whether pages that the gateway itself serves may call it.

        Not if every host name is accepted and no key is needed: any page can then reach the gateway under its own name
        (DNS rebinding), counts as same-origin, and could do everything that a user of this machine can.
        """
        return self.requires_keys or EVERY_HOST not in self.server.hosts

    @property
    def served_models(self) -> tuple[ModelConfig, ...]:
        """All models. An engine that no model names is a model under its own name."""
        used = {engine for model in self.models for engine in model.engines}
        unnamed = [ModelConfig(name=one.name, engines=(one.name,)) for one in self.engines if one.name not in used]
        return (*self.models, *unnamed)
