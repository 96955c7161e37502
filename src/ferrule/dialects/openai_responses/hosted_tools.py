"""Tools that the gateway runs. In this API they are tools of an MCP server, which clients name by its label.

A request may not contain a server's address or a key for it. It names a label, and only the gateway knows the server
behind it.

A tool of OpenAI's service, such as `web_search`, may be bound to one of the gateway's tools. It is then a server with
that one tool, which a request names by the type of the service's tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field

_SERVER_FIELDS = ("server_url", "connector_id", "tunnel_id", "authorization", "headers")
BINDINGS: Mapping[str, str] = {
    "web_search": "web_search",
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
    "file_search": "file_search",
    "code_interpreter": "code_interpreter",
    "image_generation": "image_generation",
}
"""The types of the service's tools that a gateway can bind to its own tools, and the setting that binds each."""
_BOUND = "hosted."
_OUR_SERVERS_ONLY = "Leave it out: name one of the gateway's own servers in server_label."


@dataclass(frozen=True, slots=True)
class HostedTool:
    """A tool of the server `label`. The model calls it by its definition's name; clients use `name`, if it is set.

    `may_need_approval`: its calls may have to wait for approval, so they are not announced before that is known.
    """

    definition: ToolDefinition
    label: str
    name: str = ""
    may_need_approval: bool = False

    @property
    def client_name(self) -> str:
        return self.name or self.definition.name

    def as_list_entry(self) -> dict[str, Any]:
        tool = self.definition
        hints = {"readOnlyHint": not tool.side_effects}
        head = {"name": self.client_name, "description": tool.description or None}
        return {**head, "input_schema": tool.parameters, "annotations": hints}


Hosts: TypeAlias = Mapping[str, Sequence[HostedTool]]
"""The gateway's servers that a caller may use: their tools by label. Bound tools have a label of `bound_label`."""


def bound_label(setting: str) -> str:
    """Return the label of what a tool of the service is bound to. It hides a server that has this very name."""
    return _BOUND + setting


@dataclass(frozen=True, slots=True)
class HostedServer:
    """A server that a request declares. `tools` are the allowed ones.

    `approval_required` are the names, as the model uses them, of the tools whose calls the caller wants to approve. It
    does not include those for which the gateway itself requires approval. `declared` is echoed in the response.
    """

    label: str
    tools: tuple[HostedTool, ...]
    approval_required: frozenset[str] = frozenset()
    declared: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_deferred: bool = False
    """Whether its tools are for a search to find, if the request declares one."""

    @property
    def is_bound(self) -> bool:
        """Whether it stands for a tool of the service. Clients know that by its type and not as a server."""
        return self.label.startswith(_BOUND)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the allowed tools, as the model uses them."""
        return tuple(tool.definition.name for tool in self.tools)

    def model_name(self, client_name: str) -> str | None:
        """Return the model's name of a tool, from the clients' name."""
        return next((tool.definition.name for tool in self.tools if tool.client_name == client_name), None)


def model_name_of(hosts: Hosts, label: str, client_name: str) -> str:
    """Return the model's name of a tool; the client's name if the tool no longer exists."""
    names = (tool.definition.name for tool in hosts.get(label, ()) if tool.client_name == client_name)
    return next(names, client_name)


def read_hosted(field: Field, hosts: Hosts) -> HostedServer:
    """Read a tool of the type "mcp". The defaults are those of the API: all tools, and approval for every call."""
    for name in _SERVER_FIELDS:
        if field[name].is_given:
            raise field[name].refusal("a request may not contain a server's address or credentials", _OUR_SERVERS_ONLY)
    is_deferred = field["defer_loading"].or_else(Field.boolean, False)
    label = field["server_label"].string()
    if label not in hosts or label.startswith(_BOUND):
        labels = [one for one in hosts if not one.startswith(_BOUND)]
        hint = f"Use one of: {', '.join(labels)}." if labels else "Send the tools as functions."
        raise field["server_label"].refusal(f"there is no server {label[:60]!r} that you may use", hint)
    tools = _read_allowed_tools(field["allowed_tools"], tuple(hosts[label]))
    approval_required = _read_approval_required(field["require_approval"], tools)
    values = {name: field[name].value for name in ("allowed_tools", "require_approval", "server_description")}
    field["server_description"].optional(Field.string)
    declared = {key: value for key, value in values.items() if value is not None}
    if is_deferred:
        declared["defer_loading"] = True
    return HostedServer(
        label, tools, approval_required, {"type": "mcp", "server_label": label, **declared}, is_deferred
    )


def read_bound(field: Field, hosts: Hosts) -> HostedServer | None:
    """Read a tool of the service that is bound to one of the gateway's tools; None if it is not, for this caller.

    The service needs no approval for its tools. The gateway's own approval policy still applies.
    """
    kind = field["type"].value
    # Whatever else it is, even a list, is for the caller to refuse.
    if not isinstance(kind, str) or kind not in BINDINGS:
        return None
    label = bound_label(BINDINGS[kind])
    tools = hosts.get(label)
    return HostedServer(label, tuple(tools), declared=field.value) if tools else None  # pyright: ignore[reportArgumentType]


def _read_allowed_tools(field: Field, tools: tuple[HostedTool, ...]) -> tuple[HostedTool, ...]:
    if not field.is_given:
        return tools
    if isinstance(field.value, list):
        return _select_by_name(field, tools)
    return _filter_tools(field, tools)


def _filter_tools(field: Field, tools: tuple[HostedTool, ...]) -> tuple[HostedTool, ...]:
    read_only = field["read_only"].optional(Field.boolean)
    selected = _select_by_name(field["tool_names"], tools) if field["tool_names"].is_given else tools
    return tuple(tool for tool in selected if read_only is None or tool.definition.side_effects is not read_only)


def _select_by_name(field: Field, tools: tuple[HostedTool, ...]) -> tuple[HostedTool, ...]:
    by_name = {tool.client_name: tool for tool in tools}
    selected: dict[str, HostedTool] = {}
    for entry in field.items():
        name = entry.string()
        if name not in by_name:
            offered = ", ".join(by_name) or "nothing"
            raise entry.refusal(f"{name[:60]!r} is not a tool of this server", f"It has: {offered}.")
        selected[name] = by_name[name]
    return tuple(selected.values())


def _read_approval_required(field: Field, tools: tuple[HostedTool, ...]) -> frozenset[str]:
    """Return the tools that need approval. A tool that two filters contradict or omit needs it."""
    everything = _names(tools)
    if not field.is_given:
        return everything
    if isinstance(field.value, str):
        return field.one_of({"always": everything, "never": frozenset[str]()})
    always, never = field["always"], field["never"]
    required = _names(_filter_tools(always, tools)) if always.is_given else None
    exempt = _names(_filter_tools(never, tools)) if never.is_given else None
    if exempt is None:
        return everything if required is None else required
    return everything - (exempt - (required or frozenset()))


def _names(tools: Iterable[HostedTool]) -> frozenset[str]:
    return frozenset(tool.definition.name for tool in tools)
