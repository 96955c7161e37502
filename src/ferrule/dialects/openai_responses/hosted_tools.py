"""Tools that the gateway runs itself, as the API says them: tools of an MCP server, known to clients by its label.

No request may name a server by address or bring a key for one: it names a label, and what stands behind that label is
the gateway's to know and is given in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field

_FOREIGN = ("server_url", "connector_id", "tunnel_id", "authorization", "headers")
_OUR_SERVERS_ONLY = "Leave it out: a request names one of the gateway's own servers by server_label, and nothing more."


@dataclass(frozen=True, slots=True)
class HostedTool:
    """A tool of the server `label`. The model calls it by its definition's name, clients by `name` where it is another.

    `waits`: its calls may have to wait for leave, and so are not told of before it is known whether they do.
    """

    definition: ToolDefinition
    label: str
    name: str = ""
    waits: bool = False

    @property
    def told_name(self) -> str:
        return self.name or self.definition.name

    def listed(self) -> dict[str, Any]:
        tool = self.definition
        hints = {"readOnlyHint": not tool.side_effects}
        told = {"name": self.told_name, "description": tool.description or None}
        return {**told, "input_schema": tool.parameters, "annotations": hints}


Hosts: TypeAlias = Mapping[str, Sequence[HostedTool]]
"""The gateway's servers that a caller may use, by label."""


@dataclass(frozen=True, slots=True)
class HostedServer:
    """A server that a request declares. `tools` are those of it that it allows.

    `asked` are the names, as the model knows them, of the tools for whose calls the caller wants to be asked for leave.
    What the gateway itself asks leave for is not in it. `declared` is told back in the response.
    """

    label: str
    tools: tuple[HostedTool, ...]
    asked: frozenset[str] = frozenset()
    declared: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def names(self) -> tuple[str, ...]:
        """The allowed tools, as the model knows them."""
        return tuple(tool.definition.name for tool in self.tools)

    def named(self, told_name: str) -> str | None:
        """What the model calls the tool that clients call so."""
        return next((tool.definition.name for tool in self.tools if tool.told_name == told_name), None)


def wire_name(hosts: Hosts, label: str, told_name: str) -> str:
    """What the model calls a tool that was told under this label and name; the same where nobody knows it any more."""
    found = (tool.definition.name for tool in hosts.get(label, ()) if tool.told_name == told_name)
    return next(found, told_name)


def read_hosted(field: Field, hosts: Hosts) -> HostedServer:
    """A tool of the type "mcp". What is left out is as the API has it: all tools, and leave for every call."""
    for name in _FOREIGN:
        if field[name].is_given:
            raise field[name].refusal("no request may name a server or bring a key for one", _OUR_SERVERS_ONLY)
    if field["defer_loading"].or_else(Field.boolean, False):
        raise field["defer_loading"].refusal("tools are not searched for here", "Leave it out, or send false.")
    label = field["server_label"].string()
    if label not in hosts:
        known = f"Use one of: {', '.join(hosts)}." if hosts else "Send the tools as functions."
        raise field["server_label"].refusal(f"there is no server {label[:60]!r} here that you may use", known)
    tools = _allowed(field["allowed_tools"], tuple(hosts[label]))
    asked = _asked(field["require_approval"], tools)
    kept = {name: field[name].value for name in ("allowed_tools", "require_approval", "server_description")}
    field["server_description"].optional(Field.string)
    declared = {key: value for key, value in kept.items() if value is not None}
    return HostedServer(label, tools, asked, {"type": "mcp", "server_label": label, **declared})


def _allowed(field: Field, tools: tuple[HostedTool, ...]) -> tuple[HostedTool, ...]:
    if not field.is_given:
        return tools
    if isinstance(field.value, list):
        return _of_names(field, tools)
    return _filtered(field, tools)


def _filtered(field: Field, tools: tuple[HostedTool, ...]) -> tuple[HostedTool, ...]:
    read_only = field["read_only"].optional(Field.boolean)
    named = _of_names(field["tool_names"], tools) if field["tool_names"].is_given else tools
    return tuple(tool for tool in named if read_only is None or tool.definition.side_effects is not read_only)


def _of_names(field: Field, tools: tuple[HostedTool, ...]) -> tuple[HostedTool, ...]:
    known = {tool.told_name: tool for tool in tools}
    wanted: dict[str, HostedTool] = {}
    for entry in field.items():
        name = entry.string()
        if name not in known:
            offered = ", ".join(known) or "nothing"
            raise entry.refusal(f"{name[:60]!r} is not a tool of this server", f"It has: {offered}.")
        wanted[name] = known[name]
    return tuple(wanted.values())


def _asked(field: Field, tools: tuple[HostedTool, ...]) -> frozenset[str]:
    """Where two filters contradict each other or leave a tool out, the caller is asked."""
    everything = _names(tools)
    if not field.is_given:
        return everything
    if isinstance(field.value, str):
        return field.one_of({"always": everything, "never": frozenset[str]()})
    always, never = field["always"], field["never"]
    asked = _names(_filtered(always, tools)) if always.is_given else None
    spared = _names(_filtered(never, tools)) if never.is_given else None
    if spared is None:
        return everything if asked is None else asked
    return everything - (spared - (asked or frozenset()))


def _names(tools: Iterable[HostedTool]) -> frozenset[str]:
    return frozenset(tool.definition.name for tool in tools)
