"""DeclaredTools: a request's deferred tools and searches, for an engine that carries out OpenAI's tool search itself.

The model's names of tools in namespaces become the names there again, and the searches among the messages the items
that they came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall, ToolResult
from ferrule.core.event import ToolSearch
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import DeclaredSearch, found_names, found_text, nothing_found
from ferrule.dialects.lenient_json import entries, json_text, text
from ferrule.dialects.openai_responses.tool_choice import tool_body

_SERVER: Mapping[str, Any] = {"call_id": None, "execution": "server", "status": "completed"}


@dataclass(slots=True)
class DeclaredTools:
    """`tools` are those of the request, by the names that the model uses here."""

    search: DeclaredSearch
    tools: Mapping[str, ToolDefinition]
    _made: set[str] = field(default_factory=set[str])
    """The ids of the searches so far."""

    @staticmethod
    def of(request: ToolCallRequest) -> DeclaredTools | None:
        """Return them if the request declares a search."""
        if request.tool_search is None:
            return None
        return DeclaredTools(request.tool_search, {tool.name: tool for tool in request.tools})

    def has_made(self, id: str) -> bool:
        return id in self._made

    def call_item(self, call: ToolCall) -> dict[str, Any]:
        self._made.add(call.id)
        try:
            arguments = call.arguments
        except ValueError:
            arguments = dict[str, Any]()
        return {"type": "tool_search_call", **_SERVER, "arguments": arguments}

    def output_item(self, result: ToolResult) -> dict[str, Any]:
        found = [self.tools[name] for name in found_names(result.text) if name in self.tools]
        return {"type": "tool_search_output", **_SERVER, "tools": _entries(found, self.search, strict=False)}

    def called(self, name: str) -> dict[str, str]:
        """Return the name and the namespace of a call."""
        if name not in self.search.deferred:
            return {"name": name}
        return {"name": self.search.names.get(name, name), "namespace": self.search.namespaces.get(name, name)}

    def choice(self, choice: ToolChoice) -> ToolChoice:
        if choice.names is None:
            return choice
        return replace(choice, names=tuple(self.search.names.get(name, name) for name in choice.names))


def tools_body(
    tools: Iterable[ToolDefinition], declared: DeclaredTools | None, *, strict: bool
) -> list[dict[str, Any]]:
    """Return the tools of a request, with the search if it declares one."""
    if declared is None:
        return [tool_body(tool, strict=strict) for tool in tools]
    return [*_entries(tools, declared.search, strict=strict), {"type": "tool_search"}]


def _entries(tools: Iterable[ToolDefinition], search: DeclaredSearch, *, strict: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        entry = tool_body(tool, strict=strict)
        if tool.name not in search.deferred:
            found.append(entry)
            continue
        entry["defer_loading"] = True
        namespace = search.namespaces.get(tool.name)
        if namespace is None:
            found.append(entry)
            continue
        if namespace not in groups:
            groups[namespace] = []
            about = search.descriptions.get(namespace) or namespace
            head = {"type": "namespace", "name": namespace, "description": about}
            found.append({**head, "tools": groups[namespace]})
        groups[namespace].append({**entry, "name": search.names[tool.name]})
    return found


class SearchReader:
    """Reads the calls and searches of an engine that searches itself, by the names that the model uses here."""

    def __init__(self, search: DeclaredSearch | None) -> None:
        self._search = search
        self._names = {(search.namespaces[name], own): name for name, own in search.names.items()} if search else {}
        self._arguments = "{}"

    @property
    def is_open(self) -> bool:
        """Whether the request declares a search."""
        return self._search is not None

    def name_of(self, item: Mapping[str, Any]) -> str:
        """Return the model's name of a call's tool."""
        name = text(item.get("name"))
        return self._names.get((text(item.get("namespace")), name), name)

    def read_call(self, item: Mapping[str, Any]) -> None:
        self._arguments = json_text(item.get("arguments")) or "{}"

    def read_output(self, item: Mapping[str, Any]) -> ToolSearch | None:
        if self._search is None:
            return None
        found: list[str] = []
        for entry in entries(item.get("tools")):
            group = text(entry.get("name")) if entry.get("type") == "namespace" else ""
            inner = entries(entry.get("tools")) if group else [entry]
            found += [self.name_of({"name": one.get("name"), "namespace": group}) for one in inner]
        call = ToolCall(text(item.get("id")) or "search", FunctionCall(self._search.name, self._arguments), TOOL_SEARCH)
        words = found_text(found) or nothing_found("")
        return ToolSearch(call, ToolResult(call.id, call.name, words), tuple(found), self._search.name)
