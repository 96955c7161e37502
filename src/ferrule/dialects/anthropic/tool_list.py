"""ToolList: which tools of a request the model may call.

| tool | the model may call it |
|---|---|
| with name and schema, or of a dated type that the client runs | yes |
| with `defer_loading` | once it was loaded: by a `tool_reference` in a result, a `tool_addition`, or an earlier call |
| with `defer_loading`, beside Anthropic's tool search | once a search found it: see `core.tool_search` |
| whose `allowed_callers` has no "direct" | no; it is left out and reported |
| that Anthropic runs itself, such as web search | no; it is left out and reported |
| a toolset | the request is refused: the tools in it are not known here |

Tools that were loaded stand behind the others, in the order of loading, so that the beginning of the prompt stays the
same. Of two tool searches in one request the first is used, and the other is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import DeclaredSearch
from ferrule.dialects.anthropic.published_tools import (
    PUBLISHED_TOOLS,
    TOOL_SEARCH,
    define_published_tool,
    server_tool,
)
from ferrule.dialects.field import Field
from ferrule.dialects.tool_definitions import define_tool
from ferrule.errors import DefinitionError

_MAX_EXAMPLES = 3
_MAX_EXAMPLE_CHARACTERS = 1500


@dataclass(slots=True)
class ToolList:
    """Filled in while tools and messages are read, in their order."""

    _plain: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _deferred: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _loaded: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _left_out: set[str] = field(default_factory=set[str])
    _removed: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _search: str = ""
    """The name of the tool search that the client declared."""

    @staticmethod
    def read(tools: Field) -> ToolList:
        result = ToolList()
        entries = tools.items()
        has_deferred = any(map(_is_deferred, entries))
        for entry in entries:
            kind = entry["type"].or_else(Field.string, "custom")
            name = server_tool(kind)
            if name in TOOL_SEARCH and has_deferred and not result._search:
                _read_search(entry)
                result._search = name
            elif name:
                entry.leave_out(name)
                result._left_out.add(name)
            else:
                result._add(entry, _read_tool(entry, kind), is_deferred=_is_deferred(entry))
        return result

    @property
    def search_name(self) -> str:
        return self._search

    @property
    def search(self) -> DeclaredSearch | None:
        """The search that the client declared, and the tools that it may find."""
        deferred = frozenset(self._waiting())
        return DeclaredSearch(name=self._search, deferred=deferred) if self._search and deferred else None

    @property
    def offered(self) -> tuple[ToolDefinition, ...]:
        """The tools of the request. Behind a search the deferred ones are among them."""
        searched = self._waiting().values() if self._search else ()
        return (*self._plain.values(), *self._loaded.values(), *searched)

    def _waiting(self) -> dict[str, ToolDefinition]:
        return {name: tool for name, tool in self._deferred.items() if name not in self._loaded}

    def load(self, names: Iterable[str]) -> str:
        """Load the tools that the client refers to, and return what the model reads of it."""
        requested = dict.fromkeys(names)
        for name in requested:
            if name in self._removed:
                self._deferred[name] = self._removed.pop(name)
            self._load(name)
        known = [name for name in requested if name in self._plain or name in self._loaded]
        unknown = [name for name in requested if name not in self._plain and name not in self._loaded]
        texts = [f"These tools are now available: {', '.join(known)}."] if known else []
        texts += [f"These tools are not available: {', '.join(unknown)}."] if unknown else []
        return " ".join(texts)

    def load_called(self, name: str) -> None:
        """Load a tool that was called earlier in the conversation. Behind a search the call itself does that."""
        if not self._search:
            self._load(name)

    def _load(self, name: str) -> None:
        if name in self._deferred:
            self._loaded.setdefault(name, self._deferred[name])

    def change(self, block: Field) -> str:
        """Carry out a `tool_addition` or a `tool_removal`, and return what the model reads of it."""
        tool = block["tool"]
        match (block["type"].string(), tool["type"].string()):
            case ("tool_addition", "tool_definition"):
                entry = tool["definition"]
                definition = _read_tool(entry, entry["type"].or_else(Field.string, "custom"))
                self._add(entry, definition, is_deferred=True)
                return self.load([definition.name])
            case ("tool_addition", "tool_reference"):
                return self.load([tool["name"].string()])
            case ("tool_removal", "tool_reference"):
                name = tool["name"].string()
                self._loaded.pop(name, None)
                self._remove(name)
                return f"These tools are no longer available: {name}."
            case (_, kind):
                raise tool["type"].refusal(f"{kind[:60]!r} is not supported", "Refer to a tool of the request.")

    def _remove(self, name: str) -> None:
        removed = self._plain.pop(name, None)
        if removed is not None:
            self._deferred[name] = removed
        if self._search and name in self._deferred:
            # A search must not find it.
            self._removed[name] = self._deferred.pop(name)

    def check_choice(self, choice: ToolChoice) -> None:
        """Raise for a choice that names a tool which the model may not call, and if every tool is deferred."""
        if self._deferred and not self.offered:
            raise DefinitionError(
                "every tool is deferred, so that none could load another",
                hint="Send one without defer_loading, such as the tool that searches for others.",
            )
        for name in choice.names or ():
            if not self._search and name in self._deferred and name not in self._loaded:
                raise DefinitionError(
                    f"tool_choice names {name!r}, which is deferred and was not loaded",
                    hint="Send it without defer_loading, or a tool_reference to it in a tool_result first.",
                )
            if name in self._left_out:
                raise DefinitionError(
                    f"tool_choice names {name!r}, which the model cannot call here",
                    hint='Describe it with name and input_schema, and leave out allowed_callers or add "direct".',
                )
        choice.select_tools(self.offered)

    def _add(self, entry: Field, tool: ToolDefinition, *, is_deferred: bool) -> None:
        if tool.name in self._plain or tool.name in self._deferred:
            raise entry.refusal(f"duplicate tool name {tool.name!r}", "Give each tool a unique name.")
        if not _is_callable(entry):
            entry["allowed_callers"].leave_out(tool.name)
            self._left_out.add(tool.name)
        elif is_deferred:
            self._deferred[tool.name] = tool
        else:
            self._plain[tool.name] = tool


def _read_search(entry: Field) -> None:
    if entry["defer_loading"].or_else(Field.boolean, False):
        raise entry["defer_loading"].refusal("the search itself cannot be deferred", "Leave it out.")
    entry["name"].optional(Field.string)
    if not _is_callable(entry):
        raise entry["allowed_callers"].refusal("the model here can only search directly", 'Add "direct" to it.')


def _is_deferred(entry: Field) -> bool:
    return entry["defer_loading"].or_else(Field.boolean, False)


def _is_callable(entry: Field) -> bool:
    callers = [one.string() for one in entry["allowed_callers"].items()]
    return not callers or "direct" in callers


def _read_tool(entry: Field, kind: str) -> ToolDefinition:
    if kind in PUBLISHED_TOOLS:
        return _with_examples(entry, define_published_tool(entry, kind))
    if kind != "custom":
        hint = "Describe each tool with name and input_schema."
        if kind == "mcp_toolset":
            hint = "Leave it out: a request may not name servers; the tools of the gateway's own servers are on offer."
        raise entry["type"].refusal(f"{kind[:60]!r} is not a supported tool type", hint)
    return _with_examples(entry, define_tool(entry["name"], entry["description"], entry["input_schema"]))


def _with_examples(entry: Field, tool: ToolDefinition) -> ToolDefinition:
    """Add examples of arguments to the description: as many as fit."""
    examples = entry["input_examples"].items()
    texts: list[str] = []
    for example in examples[:_MAX_EXAMPLES]:
        example.object()
        text = example.json()
        if sum(map(len, texts)) + len(text) <= _MAX_EXAMPLE_CHARACTERS:
            texts.append(text)
    if len(texts) < len(examples):
        entry["input_examples"].leave_out(f"{len(examples) - len(texts)}-of-{len(examples)}")
    if not texts:
        return tool
    lines = [*([tool.description, ""] if tool.description else []), "Examples of arguments:", *texts]
    return replace(tool, description="\n".join(lines))
