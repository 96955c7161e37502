"""The tools that a search of the server found, as the output of the search lists them.

They are listed as the client declared them: a function by itself, a tool of a namespace inside its namespace, and the
tools of a server of the gateway under its label. The order is that of the search, which keeps the tools of a
namespace together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ferrule.core.tool import ToolDefinition
from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.dialects.openai_responses.client_tools import ClientTool, ClientToolKind
from ferrule.dialects.openai_responses.hosted_tools import HostedTool


def found_tools(
    names: Iterable[str],
    declared: Iterable[Mapping[str, Any]],
    *,
    client_tools: Mapping[str, ClientTool],
    hosted: Mapping[str, HostedTool],
    tools: Mapping[str, ToolDefinition],
) -> list[dict[str, Any]]:
    """Return the entries of these tools. `declared` are the entries of the request.

    A tool that came with an input item is not among `declared`; it is described by its definition.
    """
    known = _by_tool(declared)
    found: list[dict[str, Any]] = []
    for name in names:
        if name in hosted:
            head: dict[str, Any] = {"type": "mcp", "server_label": hosted[name].label}
            _last_of(found, head, "allowed_tools").append(hosted[name].client_name)
            continue
        tool = client_tools.get(name, ClientTool(name))
        group, entry = known.get(tool, ({}, {}))
        entry = entry or _described(tool, tools.get(name))
        if tool.namespace:
            head = {"type": "namespace", "name": tool.namespace, "description": text(group.get("description"))}
            _last_of(found, head, "tools").append(entry)
        else:
            found.append({**entry, "defer_loading": True})
    return found


def _last_of(found: list[dict[str, Any]], head: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list in the last entry, if that begins so, or in a new one."""
    if not found or not head.items() <= found[-1].items():
        found.append({**head, key: []})
    return found[-1][key]


def _by_tool(declared: Iterable[Mapping[str, Any]]) -> dict[ClientTool, tuple[dict[str, Any], dict[str, Any]]]:
    """Return the entry of each tool, and that of its namespace."""
    known: dict[ClientTool, tuple[dict[str, Any], dict[str, Any]]] = {}
    for one in declared:
        group = mapping(one)
        inner = entries(group.get("tools")) if group.get("type") == "namespace" else [group]
        namespace = text(group.get("name")) if group.get("type") == "namespace" else ""
        for entry in inner:
            kind = ClientToolKind.CUSTOM if entry.get("type") == "custom" else ClientToolKind.FUNCTION
            known[ClientTool(text(entry.get("name")), namespace, kind)] = group, entry
    return known


def _described(tool: ClientTool, definition: ToolDefinition | None) -> dict[str, Any]:
    head: dict[str, Any] = {"type": tool.kind.value, "name": tool.name}
    if definition is None:
        return {**head, "parameters": {"type": "object", "properties": {}}, "strict": False}
    about = {"description": definition.description} if definition.description else {}
    if tool.kind is ClientToolKind.CUSTOM:
        return {**head, **about}
    return {**head, **about, "parameters": definition.parameters, "strict": False}
