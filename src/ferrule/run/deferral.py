"""Deferral: which tools of a large set a prompt lists, which the model may call, and which it has to search for.

The problem
    The definitions of a thousand tools are longer than most prompts may be, and a model chooses badly among them. So
    the prompt lists a few, and a tool that finds the others. Three things must hold:

    - The model may call what is loaded, and nothing else: the rule is built of the loaded tools.
    - What is loaded follows from the messages and the tools alone. Another process, or another gateway, that continues
      the conversation comes to the same set, and nothing has to be stored.
    - A prompt begins with the prompt before it, because engines keep what they have read. So the list at the front
      never changes while a conversation lasts; a tool that is found is described where it was found, in the result of
      the search.

What a prompt lists (`Deferral.front`)
    The tools that the settings always load, the search, and the tools that fit the first user message best. With the
    last, a weak model often need not search at all.

What else may be called (`DeferralPlan`)
    The messages are read in order. The result of a search loads the tools that it describes, if they are still defined
    so. A call of a tool that nothing has loaded loads it too: a search for it is put before the message that calls it,
    as if the model had made it. That happens if a client sends its history back without the searches, and follows from
    the history alone. When the loaded tools take more than the budget, those that were found or called longest ago are
    not loaded any more; their text stays where it is, and a new search finds them again.

A search that the client declares (`core.tool_search.DeclaredSearch`)
    Then the client says which tools are deferred, and nothing is preselected: the front is what it does not defer. Its
    history has the searches, by the names of what was found. `plan` describes those tools as the live answer did.

No IO: the search itself is a function that the caller passes (`FindTools`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, cast

from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall, ToolResult
from ferrule.core.event import ToolSearch
from ferrule.core.json_text import digest, dumps, loads
from ferrule.core.message import ChatMessage, Part, Role
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import (
    TOO_MANY,
    DeclaredSearch,
    error_text,
    found_names,
    found_text,
    nothing_found,
)
from ferrule.errors import DefinitionError
from ferrule.run.search_tool import QUERY, declared_search_tool, search_tool

FindTools = Callable[[str, int, Mapping[str, ToolDefinition]], Awaitable[Sequence[str]]]
"""Finds the tools that fit a text: returns at most so many names of these tools, the best first."""

CHARACTERS_PER_TOKEN = 4
_QUERY_CHARACTERS = 1_000
_UNLIMITED = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferralSettings:
    """When the tools of a request are deferred: then the model sees a few of them and searches for the others.

    Example:
        conversation = ToolConversation(engine, tools, deferral=DeferralSettings(above_tokens=4000))
    """

    above_tokens: int = 0
    """How many tokens the definitions of a request's tools may take, at four characters each, before they are deferred.
    The tools that are loaded take as many at most; 0 defers none."""
    always: tuple[str, ...] = ()
    """The tools that are always loaded, by name or by a pattern such as `files_*`. They count in `above_tokens`; if
    they take all of it, one tool is preselected and what the last search found is loaded."""
    preselected: int = 5
    """How many of the tools that fit the first user message best are loaded from the start."""
    found: int = 5
    """How many tools one search finds."""
    searches: int = 3
    """How often the model may search in one answer."""

    def __post_init__(self) -> None:
        for name, least in (("above_tokens", 0), ("preselected", 0), ("found", 1), ("searches", 1)):
            if getattr(self, name) < least:
                raise DefinitionError(f"{name} must be {least} or more", hint=f"Set {name} = {least}.")


@dataclass(frozen=True, slots=True)
class DeferralPlan:
    """One prompt. `listed` are the tools at its front, `loaded` those that its messages describe, by name."""

    messages: tuple[ChatMessage, ...]
    listed: tuple[ToolDefinition, ...]
    loaded: Mapping[str, ToolDefinition]

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """What the model may call, the search included."""
        return (*self.listed, *self.loaded.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)


@dataclass(frozen=True, slots=True)
class Deferral:
    """The tools of a request, of which most are deferred. `front` is the list at the beginning of each prompt."""

    settings: DeferralSettings
    tools: Mapping[str, ToolDefinition]
    search: ToolDefinition
    front: tuple[ToolDefinition, ...]
    declared: str = ""
    """The client's name for the search, if the client declared it."""

    @staticmethod
    def of_declared(
        tools: Iterable[ToolDefinition], settings: DeferralSettings, declared: DeclaredSearch
    ) -> Deferral | None:
        """Return the deferral that a client declared; None if none of these tools is deferred.

        The settings' budget holds all the same: if the other tools alone take more, they are deferred too.
        """
        by_name = {tool.name: tool for tool in tools}
        plain = [tool for tool in by_name.values() if tool.name not in declared.deferred]
        if len(plain) == len(by_name):
            return None
        if defers(plain, settings):
            plain = [tool for tool in plain if any(fnmatchcase(tool.name, one) for one in settings.always)]
        settings = replace(settings, above_tokens=settings.above_tokens or _UNLIMITED, preselected=0)
        listed = {tool.name for tool in plain}
        search = declared_search_tool(
            by_name, [name for name in by_name if name not in listed], declared, budget_of(settings)
        )
        return Deferral(settings, by_name, search, (*plain, search), declared.name)

    @property
    def deferred(self) -> Mapping[str, ToolDefinition]:
        """The tools that a prompt does not list."""
        listed = {tool.name for tool in self.front}
        return {name: tool for name, tool in self.tools.items() if name not in listed}

    @staticmethod
    def of(
        tools: Iterable[ToolDefinition],
        settings: DeferralSettings,
        source_of: Callable[[str], str] | None = None,
    ) -> Deferral | None:
        """Return the deferral of these tools; None if they are few enough, or all of them are always loaded.

        `source_of` returns the source of a tool by its name, for the directory.
        """
        # Sources answer in any order, and clients send any: a prompt must not begin differently for that.
        by_name = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        if not defers(by_name.values(), settings):
            return None
        always = [tool for tool in by_name.values() if any(fnmatchcase(tool.name, one) for one in settings.always)]
        if len(always) == len(by_name):
            return None
        deferred = by_name.keys() - {tool.name for tool in always}
        search = search_tool(by_name, [name for name in by_name if name in deferred], source_of, budget_of(settings))
        return Deferral(settings, by_name, search, (*always, search))

    @property
    def budget(self) -> int:
        """How many characters the definitions of the loaded tools may take."""
        return budget_of(self.settings)

    def with_preselected(self, names: Iterable[str]) -> Deferral:
        """Return the deferral with these tools at the front, as far as they fit.

        If none of them is a tool, it is the first ones by name: a model without any tool could not be made to call one.
        """
        listed = {tool.name for tool in self.front}
        known = [self.tools[name] for name in dict.fromkeys(names) if name in self.tools and name not in listed]
        chosen: list[ToolDefinition] = []
        characters = sum(tool.characters for tool in self.front)
        for tool in islice(known or self._unlisted(), self.settings.preselected):
            characters += tool.characters
            if chosen and characters > self.budget:
                break
            chosen.append(tool)
        return replace(self, front=(*self.front, *chosen))

    def _unlisted(self) -> Iterator[ToolDefinition]:
        listed = {tool.name for tool in self.front}
        return (tool for name, tool in self.tools.items() if name not in listed)

    def plan(self, messages: Iterable[ChatMessage]) -> DeferralPlan:
        """Return the prompt of these messages."""
        loaded = _LoadedTools(self)
        planned: list[ChatMessage] = []
        searches: dict[str, ToolCall] = {}
        for original in messages:
            message = original
            missing = loaded.missing(call.name for call in message.tool_calls if call.type != TOOL_SEARCH)
            if missing:
                search = self.search_for(missing, place=len(planned))
                planned += search_messages(search)
                loaded.add(missing)
            for call in message.tool_calls:
                if call.type == TOOL_SEARCH:
                    searches[call.id] = call
                else:
                    # Some families count their ids, and each counts its own calls only.
                    searches.pop(call.id, None)
                    loaded.use(call.name)
            if self.declared:
                message = self._with_descriptions(message, searches, loaded)
            for result in message.results:
                if result.tool_call_id in searches:
                    # It describes no tool that was loaded already, and tells the model to call it all the same.
                    still = [name for name in found_names(result.text) if name in loaded.tools]
                    loaded.add([*still, *self._described(result.text)])
            planned.append(message)
        # By name, so that the same set is the same rule, whatever was used last.
        return DeferralPlan(tuple(planned), self.front, dict(sorted(loaded.tools.items())))

    def _with_descriptions(
        self, message: ChatMessage, searches: Mapping[str, ToolCall], loaded: _LoadedTools
    ) -> ChatMessage:
        """Describe the tools that a client's history says were found, in the words of the live answer."""
        parts: list[Part] = []
        for part in message.parts:
            call = searches.get(part.tool_call_id) if isinstance(part, ToolResult) else None
            if call is None or not isinstance(part, ToolResult) or "\n" in part.text or not found_names(part.text):
                parts.append(part)
                continue
            plan = DeferralPlan((), self.front, loaded.tools)
            parts.append(self.answer(call, found_names(part.text), plan).result)
        return replace(message, parts=tuple(parts))

    def answer(self, call: ToolCall, found: Iterable[str], plan: DeferralPlan) -> ToolSearch:
        """Return the answer to a search that found these tools."""
        known = tuple(name for name in dict.fromkeys(found) if name in self.tools)
        available, listed = set(plan.names), {tool.name for tool in plan.listed}
        lines: list[str] = []
        characters = 0
        shown: list[str] = []
        for name in known:
            line = "" if name in available else definition_line(self.tools[name])
            # What it names is loaded, described here or not.
            characters += 0 if name in listed else self.tools[name].characters
            if shown and characters > self.budget:
                break
            shown.append(name)
            lines += [line] if line else []
        # What to do next comes first: a small model otherwise searches again.
        text = "\n".join((found_text(shown), *lines)) if shown else nothing_found(query_of(call))
        return ToolSearch(call, ToolResult(call.id, call.name, text), tuple(shown), self.declared)

    def refuse(self, call: ToolCall) -> ToolSearch:
        """Return the answer to a search beyond those that an answer may have."""
        if self.declared:
            return self.fail(call, TOO_MANY)
        text = f"Not searched: one answer has at most {self.settings.searches} searches. Call a tool, or answer."
        return ToolSearch(call, ToolResult(call.id, call.name, text), ())

    def fail(self, call: ToolCall, code: str) -> ToolSearch:
        """Return the answer to a declared search that failed."""
        return ToolSearch(call, ToolResult(call.id, call.name, error_text(code)), (), self.declared, code)

    def search_for(self, names: Sequence[str], place: int) -> ToolSearch:
        """Return a search that describes these tools, as if the model had made it. The same at the same place."""
        id = f"call_{digest([place, *names])[:24]}"
        query = " ".join(names).replace("_", " ")[:_QUERY_CHARACTERS]
        call = ToolCall(id, FunctionCall(self.search.name, {QUERY: query}), TOOL_SEARCH)
        lines = (definition_line(self.tools[name]) for name in names)
        text = "\n".join((found_text(names), *lines))
        return ToolSearch(call, ToolResult(id, self.search.name, text), tuple(names), self.declared)

    def _described(self, text: str) -> list[str]:
        """Return the tools that a result describes as they are defined now."""
        names: list[str] = []
        for line in text.split("\n")[1:]:
            name = _described_name(line)
            if name in self.tools and definition_line(self.tools[name]) == line:
                names.append(name)
        return names


@dataclass(slots=True)
class _LoadedTools:
    """The tools that messages have loaded, the one that was used longest ago first."""

    deferral: Deferral
    tools: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _listed: frozenset[str] = field(init=False)
    _budget: int = field(init=False)

    def __post_init__(self) -> None:
        front = self.deferral.front
        self._listed = frozenset(tool.name for tool in front)
        self._budget = self.deferral.budget - sum(tool.characters for tool in front)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are tools which nothing has loaded."""
        known = self.deferral.tools
        return [
            name
            for name in dict.fromkeys(names)
            if name in known and name not in self._listed and name not in self.tools
        ]

    def add(self, names: Sequence[str]) -> None:
        """Load tools, and unload those that were used longest ago where the budget demands it."""
        for name in names:
            if name not in self._listed:
                self.tools.pop(name, None)
                self.tools[name] = self.deferral.tools[name]
        characters = sum(tool.characters for tool in self.tools.values())
        for name in [name for name in self.tools if name not in names]:
            if characters <= self._budget:
                break
            characters -= self.tools.pop(name).characters

    def use(self, name: str) -> None:
        if name in self.tools:
            self.tools[name] = self.tools.pop(name)


def budget_of(settings: DeferralSettings) -> int:
    """Return how many characters the definitions of the loaded tools may take."""
    return settings.above_tokens * CHARACTERS_PER_TOKEN


def defers(tools: Iterable[ToolDefinition], settings: DeferralSettings) -> bool:
    """Whether these tools take more than the settings allow."""
    if not settings.above_tokens:
        return False
    limit, characters = budget_of(settings), 0
    for tool in tools:
        characters += tool.characters
        if characters > limit:
            return True
    return False


def first_query(messages: Iterable[ChatMessage]) -> str:
    """Return the text by which tools are preselected: that of the first user message, even if it has none.

    A later one would change what the prompt lists while the conversation lasts.
    """
    return next((one.content[:_QUERY_CHARACTERS] for one in messages if one.role is Role.USER), "")


def without_searches(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Return the messages without searches and their results."""
    if not any(call.type == TOOL_SEARCH for message in messages for call in message.tool_calls):
        return tuple(messages)
    searches: set[str] = set()
    kept: list[ChatMessage] = []
    for message in messages:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                (searches.add if part.type == TOOL_SEARCH else searches.discard)(part.id)
                if part.type == TOOL_SEARCH:
                    continue
            elif isinstance(part, ToolResult) and part.tool_call_id in searches:
                continue
            parts.append(part)
        if parts or not message.parts:
            kept.append(ChatMessage(message.role, parts))
    return tuple(kept)


def search_messages(search: ToolSearch) -> tuple[ChatMessage, ChatMessage]:
    """Return a search as messages: the call and its result."""
    return ChatMessage(Role.ASSISTANT, (search.call,)), ChatMessage(Role.TOOL, (search.result,))


def query_of(call: ToolCall) -> str:
    """Return the text that a call searches for; empty if it has none."""
    try:
        query = call.arguments.get(QUERY)
    except ValueError:
        return ""
    return query if isinstance(query, str) else ""


def definition_line(tool: ToolDefinition) -> str:
    """Return a tool's definition as one line of JSON: text of its author cannot begin another line."""
    return dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters})


def _described_name(line: str) -> str:
    try:
        value = loads(line)
    except (ValueError, RecursionError):
        return ""
    name = cast("dict[str, Any]", value).get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""
