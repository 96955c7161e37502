"""Tools that the caller runs: how this API describes them, and the names by which the model calls them.

A model calls a tool by one name and writes a JSON object. This API has more kinds of tools than that:

| kind | what the model gets | what the caller gets |
|---|---|---|
| function | the function | `function_call` |
| tool in a namespace | a tool named `namespace__name` | the item of its kind, with `namespace` and `name` |
| custom tool | a function with the argument `input` | `custom_tool_call` with the text itself |
| tool search of the caller | a function with its parameters | `tool_search_call` with the arguments as an object |
| tool search of the server | a search that is answered here | `tool_search_call` and `tool_search_output` |

Tools of `additional_tools` and `tool_search_output`, which are input items, are offered from that item on. They follow
the tools of the body in the order of the items, so that a prompt only grows at the end of its list of tools.

With a tool search, the tools with `defer_loading` are deferred. The caller's search brings them with its output. The
server's search is `core.tool_search`: `search` says which tools it may find, and they are among `definitions`.

Tools of OpenAI's service, such as web search, are left out and noted in `left_out`, and the model is not offered them;
except those that the gateway has bound to a tool of its own (`hosted_tools`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from ferrule.core.json_text import digest, dumps, loads
from ferrule.core.text_grammar import SYNTAXES, GrammarSyntax, TextGrammar
from ferrule.core.tool import CUSTOM_INPUT, ToolDefinition, is_tool_name
from ferrule.core.tool_search import DeclaredSearch
from ferrule.dialects.field import Field
from ferrule.dialects.lenient_json import entries, mapping
from ferrule.dialects.openai_responses.hosted_tools import (
    BINDINGS,
    HostedServer,
    Hosts,
    bound_label,
    read_bound,
    read_hosted,
)
from ferrule.dialects.tool_definitions import define_tool
from ferrule.errors import DefinitionError

_MAX_NAME = 64
"""The length of a function name that every provider accepts."""
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST = 8
_SYNTAXES: dict[str, GrammarSyntax] = {syntax: syntax for syntax in SYNTAXES}
_SEARCH = "tool_search"
_SEARCH_DESCRIPTION = "Searches for more tools. Those that are found can be called afterwards."
_SEARCH_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tools should do."}},
    "required": ["query"],
    "additionalProperties": False,
}
SERVICE_TOOLS = (
    "code_interpreter",
    "computer",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)
"""The types of the tools that OpenAI's service runs itself, or that need its own models."""
_HINT = (
    "Send functions, custom tools, namespaces of them, tool_search, or name a server of the gateway as an mcp tool. "
    "Tools of OpenAI's service, such as web_search, are left out."
)


class ClientToolKind(StrEnum):
    FUNCTION = "function"
    CUSTOM = "custom"
    TOOL_SEARCH = "tool_search"


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool as the caller knows it. Plain functions need none: the model uses their names."""

    name: str
    namespace: str = ""
    kind: ClientToolKind = ClientToolKind.FUNCTION

    @property
    def is_plain(self) -> bool:
        return self.kind is ClientToolKind.FUNCTION and not self.namespace

    def as_json(self) -> list[str]:
        return [self.name, self.namespace, self.kind.value]

    @staticmethod
    def from_json(values: list[str]) -> ClientTool:
        name, namespace, kind = values
        return ClientTool(name, namespace, ClientToolKind(kind))


class OfferedTools:
    """The tools of a request: call `read` with those of its body, then `add` with those of its input items.

    `definitions` are the tools that the model gets, by the names that it uses. `client_tools` says of those that are
    not plain functions what the caller knows them as. `declared` is echoed in the response.
    """

    def __init__(self, hosts: Hosts | None = None) -> None:
        self._hosts = hosts or {}
        self.definitions: dict[str, ToolDefinition] = {}
        self.client_tools: dict[str, ClientTool] = {}
        self.servers: dict[str, HostedServer] = {}
        self.declared: list[dict[str, Any]] = []
        self.left_out: dict[str, str] = {}
        """The types of the tools that are not offered, by their paths."""
        self.loaded: dict[str, None] = {}
        """The names, as the model uses them, of the tools that came with input items."""
        self._names: dict[ClientTool, str] = {}
        self._taken: set[str] = set()
        """The names that `_names` has given."""
        self._aliases: dict[tuple[ClientToolKind, str], list[str]] = {}
        """The model's names of the offered tools, by what a caller may call them without a namespace."""
        self._namespaces: dict[str, list[str]] = {}
        """The model's names of the offered tools of each namespace."""
        self._described: dict[str, str] = {}
        """The tool of each namespace whose description has that of the namespace."""
        self._hosted_names: frozenset[str] = frozenset()
        self._deferred: dict[str, ToolDefinition] = {}
        self._namespace_texts: dict[str, str] = {}
        self._has_server_search = False
        self._searchable: dict[str, None] = {}
        """The deferred tools that the server's search may find."""

    def read(self, field: Field) -> None:
        """Read the tools of the body. A name that occurs twice is refused, because a call of it would be ambiguous."""
        tools = field.items()
        for entry in tools:
            # Functions keep their names, so namespaced ones make way for them.
            if entry["type"].value == "function":
                self._assign(ClientTool(entry["name"].string()))
        searches = [entry for entry in tools if _is_search(entry)]
        caller_searches = any(map(_runs_search, searches))
        self._has_server_search = bool(searches) and not caller_searches and any(map(_has_deferred, tools))
        for entry in tools:
            self._read_entry(entry, defers=caller_searches)
        for server in self.servers.values():
            if both := self.definitions.keys() & set(server.names):
                message = f"{sorted(both)[0]!r} is a function and a tool of {server.label!r}"
                hint = "Give the function another name, or leave the tool out with allowed_tools."
                raise field.refusal(message, hint)
            if server.is_deferred and self._has_server_search:
                self._searchable |= dict.fromkeys(server.names)
        self._hosted_names = frozenset(name for server in self.servers.values() for name in server.names)

    @property
    def search(self) -> DeclaredSearch | None:
        """The server's search, if the request declares one and defers tools."""
        if not self._searchable:
            return None
        tools = {name: self._client_tool(name) for name in self._searchable}
        spaces = {name: tool.namespace for name, tool in tools.items() if tool.namespace}
        return DeclaredSearch(
            name=_SEARCH,
            deferred=frozenset(self._searchable),
            namespaces=spaces,
            names={name: tools[name].name for name in spaces},
            descriptions={group: self._namespace_texts[group] for group in dict.fromkeys(spaces.values())},
        )

    def _client_tool(self, name: str) -> ClientTool:
        return self.client_tools.get(name, ClientTool(name))

    def found(self, item: Field) -> tuple[str, ...]:
        """Return the model's names of the tools in the output of a search that the server made.

        Tools that the request does not declare are offered from now on, as those that a caller's search found.
        """
        unknown: list[Any] = []
        names: list[str] = []
        for entry in item["tools"].items():
            if entry["type"].value == "mcp":
                names += self._found_on_server(entry)
                continue
            known = [self.model_name(tool) for tool in _declared_in(entry)]
            if all(name in self._searchable for name in known):
                names += known
                entry.object()
            else:
                unknown.append(entry.value)
        names += self.add(Field(unknown, item["tools"].path), is_found=True) if unknown else ()
        return tuple(names)

    def _found_on_server(self, entry: Field) -> list[str]:
        server = self.servers.get(entry["server_label"].string())
        names = [one.string() for one in entry["allowed_tools"].items()]
        entry["defer_loading"].optional(Field.boolean)
        found = [server.model_name(name) for name in names] if server else []
        return [name for name in found if name is not None]

    def add(self, field: Field, *, is_found: bool) -> tuple[str, ...]:
        """Read the tools of an input item and return the model's names of those that are offered from now on.

        `is_found`: the item says what a search found, so its deferred tools are offered. A tool that was read before
        is replaced in its place.
        """
        names: list[str] = []
        new: set[str] = set()
        for entry in field.items():
            # It is stored with the input items.
            entry.require_json()
            for tool, namespace_entry in self._expand(entry):
                if is_found:
                    # It was deferred until now.
                    tool["defer_loading"].optional(Field.boolean)
                count = len(self.definitions)
                name = self._add(tool, namespace_entry, defers=not is_found and self._can_search, replaces=True)
                if is_found:
                    self._searchable.pop(name, None)
                names += [name] if name in self.definitions else []
                new |= {name} if len(self.definitions) > count else set()
        if both := self._hosted_names.intersection(names):
            raise field.refusal(f"{sorted(both)[0]!r} is a tool of the gateway too", "Give it another name.")
        self.loaded.update(dict.fromkeys(name for name in names if name in new or name in self.loaded))
        return tuple(names)

    def model_name(self, tool: ClientTool) -> str:
        """Return the name by which the model knows a tool, also of one that is not offered any more."""
        if tool in self._names:
            return self._names[tool]
        if tool.namespace == tool.name:
            # A deferred function that is in no namespace is called with its own name as one.
            plain = ClientTool(tool.name, "", tool.kind)
            if plain in self._names:
                return self._names[plain]
        if tool.namespace:
            return self._assign(tool)
        # Clients leave a namespace out where the name is clear without it, and one of them sends the model's own name.
        candidates = self.candidates(tool)
        return candidates[0] if len(candidates) == 1 else tool.name

    def candidates(self, tool: ClientTool) -> Sequence[str]:
        """Return the model's names of the offered tools that a caller may mean by a name without its namespace."""
        if tool in self._names and self._names[tool] in self.definitions:
            return [self._names[tool]]
        return self._aliases.get((tool.kind, tool.name), ())

    def names_in(self, namespace: str) -> Sequence[str]:
        """Return the model's names of the offered tools of a namespace."""
        return self._namespaces.get(namespace, ())

    @property
    def search_name(self) -> str | None:
        """The model's name of the caller's tool search, if there is one."""
        return self._names.get(_SEARCH_TOOL)

    def bound_names(self, kind: str) -> Sequence[str]:
        """Return the model's name of what a declared tool of the service is bound to; none if it is not bound."""
        server = self.servers.get(bound_label(BINDINGS.get(kind, kind)))
        return server.names if server is not None else ()

    @property
    def _can_search(self) -> bool:
        return self.search_name is not None

    def _read_entry(self, entry: Field, *, defers: bool) -> None:
        if entry["type"].value != "function":
            # The response echoes it.
            entry.require_json()
        if entry["type"].value == "mcp":
            server = read_hosted(entry, self._hosts)
            if server.label in self.servers:
                raise entry["server_label"].refusal(f"{server.label!r} is declared twice", "Declare it once.")
            self.servers[server.label] = server
            if server.is_deferred and not self._has_server_search:
                entry["defer_loading"].leave_out()
            return
        bound = read_bound(entry, self._hosts)
        if bound is not None and bound.label not in self.servers:
            self.servers[bound.label] = bound
            return
        if _is_search(entry) and not _runs_search(entry):
            if not self._has_server_search:
                # There is nothing to search for, or the caller's search finds it.
                self._leave_out(entry, _SEARCH)
            entry["description"].optional(Field.string)
            _ = entry["parameters"]
            self.declared.append(_echo(entry))
            return
        for tool, namespace in self._expand(entry):
            self._add(tool, namespace, defers=defers, replaces=False)
        self.declared.append(_echo(entry))

    def _leave_out(self, entry: Field, kind: str) -> None:
        self.left_out[entry.path] = kind
        entry.leave_out(kind)

    def _expand(self, entry: Field) -> list[tuple[Field, Field | None]]:
        """Return an entry, or the tools of a namespace, each with the namespace if it is the first one in it."""
        kind = entry["type"].value
        if kind in SERVICE_TOOLS:
            self._leave_out(entry, cast(str, kind))
            return []
        if kind != "namespace":
            return [(entry, None)]
        entry["name"].string()
        entry["description"].optional(Field.string)
        return [(tool, entry) for tool in entry["tools"].items()]

    def _add(self, entry: Field, namespace: Field | None, *, defers: bool, replaces: bool) -> str:
        tool, definition = self._define(entry, namespace)
        name = definition.name
        is_known = name in self.definitions or name in self._deferred
        if is_known and not replaces:
            shown = f"{tool.name!r} in {tool.namespace!r}" if tool.namespace else repr(tool.name)
            raise entry.refusal(f"duplicate tool name {shown}", "Give each tool a unique name.")
        is_deferred = (defers or self._has_server_search) and entry["defer_loading"].or_else(Field.boolean, False)
        if self._has_server_search and is_deferred and name not in self.definitions:
            self._searchable[name] = None
        if defers and is_deferred and name not in self.definitions:
            self._deferred[name] = definition
        else:
            self._deferred.pop(name, None)
            if name not in self.definitions:
                for alias in {tool.name, name}:
                    self._aliases.setdefault((tool.kind, alias), []).append(name)
                if tool.namespace:
                    self._namespaces.setdefault(tool.namespace, []).append(name)
            self.definitions[name] = definition
        if tool.is_plain and name == tool.name:
            self.client_tools.pop(name, None)
        else:
            self.client_tools[name] = tool
        return name

    def _define(self, entry: Field, namespace: Field | None) -> tuple[ClientTool, ToolDefinition]:
        group = "" if namespace is None else namespace["name"].string()
        match entry["type"].value:
            case "function":
                tool = ClientTool(entry["name"].string(), group)
            case "custom":
                tool = ClientTool(entry["name"].string(), group, ClientToolKind.CUSTOM)
            case "tool_search" if namespace is None and _runs_search(entry):
                tool = _SEARCH_TOOL
            case _:
                raise unknown_tool(entry)
        name = Field(self._assign(tool), entry["name"].path)
        description = entry["description"].or_else(Field.string, _SEARCH_DESCRIPTION if tool == _SEARCH_TOOL else "")
        about = "" if namespace is None else namespace["description"].or_else(Field.string, "")
        self._namespace_texts.setdefault(group, about)
        # The description of a namespace is in that of the search.
        is_searched = self._has_server_search and entry["defer_loading"].value is True
        if about and not is_searched and self._described.setdefault(group, name.string()) == name.value:
            # Once is enough: the description may be as long as the instructions of a server.
            description = f"{description}\n\n{group}: {about}".strip()
        if tool.kind is ClientToolKind.CUSTOM:
            grammar = _read_grammar(entry["format"])
            return tool, name.build(lambda: ToolDefinition.custom(name.string(), description, grammar))
        parameters = entry["parameters"]
        if tool == _SEARCH_TOOL and not parameters.is_given:
            parameters = Field(_SEARCH_PARAMETERS)
        return tool, define_tool(name, Field(description, entry["description"].path), parameters)

    def _assign(self, tool: ClientTool) -> str:
        """Return the model's name of a tool. It depends on the tool alone, unless another tool has that name."""
        if tool not in self._names:
            name = _flat_name(tool) if tool.namespace else tool.name
            self._names[tool] = _digest_name(name, tool) if name in self._taken else name
            self._taken.add(self._names[tool])
        return self._names[tool]


_SEARCH_TOOL = ClientTool(_SEARCH, "", ClientToolKind.TOOL_SEARCH)


def _flat_name(tool: ClientTool) -> str:
    wanted = f"{tool.namespace}__{tool.name}"
    is_allowed = len(wanted) <= _MAX_NAME and is_tool_name(wanted) and not _FORBIDDEN.search(wanted)
    return wanted if is_allowed else _digest_name(wanted, tool)


def _digest_name(wanted: str, tool: ClientTool) -> str:
    start = _FORBIDDEN.sub("_", wanted)[: _MAX_NAME - _DIGEST - 2]
    name = f"{start}_{digest(tool.as_json())[:_DIGEST]}"
    return name if is_tool_name(name) else f"_{name}"


def _read_grammar(format: Field) -> TextGrammar | None:
    """Read the format of a custom tool: any text, or a grammar for it."""
    if not format.is_given:
        return None
    match format["type"].string():
        case "text":
            return None
        case "grammar":
            syntax = format["syntax"].one_of(_SYNTAXES)
            definition = format["definition"]
            return definition.build(lambda: TextGrammar(syntax, definition.string()))
        case kind:
            raise format["type"].refusal(f"unknown format {kind[:60]!r}", "Use text or grammar.")


def _echo(entry: Field) -> dict[str, Any]:
    """Return a tool as the response echoes it."""
    if entry["type"].value != "function":
        return cast("dict[str, Any]", entry.value)
    name, description, parameters = entry["name"].value, entry["description"].value, entry["parameters"].value
    about = {"description": description} if description else {}
    if mapping(entry.value).get("defer_loading") is True:
        about["defer_loading"] = True
    schema: object = {"type": "object", "properties": dict[str, Any]()} if parameters is None else parameters
    return {"type": "function", "name": name, **about, "parameters": schema, "strict": False}


def unknown_tool(field: Field) -> DefinitionError:
    return field["type"].refusal(f"{field['type'].value!r:.60} is not a supported tool type", _HINT)


def custom_arguments(text: str) -> dict[str, str]:
    """Return the arguments by which a model calls a custom tool with this text."""
    return {CUSTOM_INPUT: text}


def custom_input(arguments: str) -> str | None:
    """Return the text of a call of a custom tool; None if the arguments are something else."""
    value = _json_object(arguments)
    text = None if value is None else value.get(CUSTOM_INPUT)
    return text if isinstance(text, str) else None


def search_arguments(arguments: str) -> dict[str, Any] | None:
    """Return the arguments of a tool search; None if they are not an object."""
    return _json_object(arguments)


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


CALL_KINDS = {
    "function_call": ClientToolKind.FUNCTION,
    "custom_tool_call": ClientToolKind.CUSTOM,
    "tool_search_call": ClientToolKind.TOOL_SEARCH,
}


def written_call(item: Mapping[str, Any]) -> tuple[ClientTool, str]:
    """Return the tool that an item calls, and the arguments as the model wrote them or could have."""
    kind = CALL_KINDS[item["type"]]
    if kind is ClientToolKind.TOOL_SEARCH:
        return _SEARCH_TOOL, dumps(item["arguments"])
    tool = ClientTool(item["name"], item.get("namespace") or "", kind)
    return tool, dumps(custom_arguments(item["input"])) if kind is ClientToolKind.CUSTOM else item["arguments"]


def client_tools_as_json(tools: Mapping[str, ClientTool]) -> dict[str, list[str]]:
    return {name: tool.as_json() for name, tool in tools.items()}


def client_tools_from_json(data: Mapping[str, list[str]]) -> dict[str, ClientTool]:
    return {name: ClientTool.from_json(values) for name, values in data.items()}


def _has_deferred(entry: Field) -> bool:
    """Whether an entry of the tools defers a tool. It reads the values alone: who uses a field, reads it."""
    value = mapping(entry.value)
    inner = entries(value.get("tools")) if value.get("type") == "namespace" else [value]
    return any(one.get("defer_loading") is True for one in inner)


def _declared_in(entry: Field) -> list[ClientTool]:
    """Return the tools in an entry of a search's output."""
    tools = entry["tools"].items() if entry["type"].value == "namespace" else [entry]
    group = entry["name"].string() if entry["type"].value == "namespace" else ""
    kinds = {"function": ClientToolKind.FUNCTION, "custom": ClientToolKind.CUSTOM}
    return [ClientTool(tool["name"].string(), group, tool["type"].one_of(kinds)) for tool in tools]


def _is_search(entry: Field) -> bool:
    return entry["type"].value == _SEARCH


def _runs_search(entry: Field) -> bool:
    """Whether the caller runs the search."""
    return entry["execution"].or_else(lambda field: field.one_of({"client": True, "server": False}), False)
