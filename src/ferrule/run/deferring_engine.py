"""DeferringEngine: an engine whose model sees a few of many tools, and searches for the others.

It stands between a request and any other engine. A request whose tools take too much becomes a request with the tools
that are loaded and the search (`run.deferral`). A call of the search is answered here, and the model is asked again:
a reader of the events sees one reply, with a `ToolSearch` where the model searched, and the calls of its own tools.

Where the searches are kept
    A conversation of Ferrule's own loop keeps them among its messages (`Reply.as_messages`). A client that brings its
    own tools never sees them, and sends its history back without them. Then `SearchMemory` puts them back, so that the
    prompt begins as the one before. Where it does not know them, because the process was restarted or another one
    answers, nothing is lost but time: the tools that the history calls are loaded by `Deferral.plan`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ferrule.core.byte_cache import ENTRY_BYTES, ByteCache
from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall, ToolResult
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    ToolSearch,
    Usage,
    add_usage,
)
from ferrule.core.json_text import digest, dumps
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text, messages_as_json
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ChoiceMode, ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import INVALID, UNAVAILABLE, DeclaredSearch
from ferrule.engines.engine import Enforcement, Engine, Traits
from ferrule.errors import DefinitionError, NoValidCallError
from ferrule.run.deferral import (
    Deferral,
    DeferralPlan,
    DeferralSettings,
    FindTools,
    first_query,
    query_of,
    without_searches,
)


class DeferringEngine(Engine):
    """Defers the tools of requests that have too many. Closing it closes the engine.

    Example:
        engine = DeferringEngine(load_engine("llama:model.gguf"), DeferralSettings(above_tokens=4000), ToolFinder())
        reply = await engine.ask("Will it rain in Rome?", tools=a_thousand_tools)
    """

    def __init__(
        self,
        engine: Engine,
        settings: DeferralSettings,
        find: FindTools,
        *,
        search: FindTools | None = None,
        declared_search: FindTools | None = None,
        source_of: Callable[[str], str] | None = None,
        memory: SearchMemory | None = None,
        cache: DeferralCache | None = None,
    ) -> None:
        """`source_of` returns the source of a tool by its name. `memory` is for clients that do not keep searches.

        `find` chooses what a prompt lists, so it must find the same as long as a conversation lasts. `search` answers
        the model's own searches, whose results are kept among the messages; it is `find` if it is not given.
        `declared_search` answers those of a search that the client declared. It raises `DefinitionError` for a query
        that is none, with the code `tool_search.INVALID`.
        """
        self.engine = engine
        self._settings = settings
        self._find = find
        self._find_for_model = search or find
        self._find_declared = declared_search or self._find_for_model
        self._source_of = source_of
        self._memory = memory
        self._cache = cache or DeferralCache()

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]  # those of the engine
        return self.engine.traits

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        deferral = await self._deferral(request)
        if deferral is None:
            async with aclosing(self.engine.stream_request(request)) as events:
                async for event in events:
                    yield event
            return
        # The history of a client that declared the search has the searches.
        memory = None if deferral.declared else self._memory
        answer = _Answer(deferral, request, memory, "allowed" in self.engine.traits.honours)
        for search in answer.load_named():
            yield search
        while True:
            events_of_round = _Round(deferral.search.name, answer.calls)
            async with aclosing(self.engine.stream_request(answer.request())) as events:
                async for event in events:
                    for shown in events_of_round.feed(event):
                        answer.fold.add(shown)
                        yield shown
            if not events_of_round.has_ended:
                # The engine broke off without an end: there is nothing to continue.
                return
            answer.end_round(events_of_round)
            for call in events_of_round.searches:
                search = await self._search(answer, call)
                answer.add_search(search)
                yield search
            if not answer.continues(events_of_round):
                break
        finish = answer.finish(events_of_round)
        answer.fold.add(finish)
        answer.remember()
        yield finish

    async def count_tokens(self, request: ToolCallRequest) -> int:
        deferral = await self._deferral(request)
        if deferral is None:
            return await self.engine.count_tokens(request)
        memory = None if deferral.declared else self._memory
        answer = _Answer(deferral, request, memory, has_allowed_choice=True)
        answer.load_named()
        return await self.engine.count_tokens(answer.request())

    async def enforcement(self, tool: ToolDefinition) -> Enforcement:
        return await self.engine.enforcement(tool)

    async def close(self) -> None:
        await self.engine.close()

    async def _deferral(self, request: ToolCallRequest) -> Deferral | None:
        try:
            deferral = self._cache.get(request.tools, self._settings, self._source_of, request.tool_search)
        except ValueError:
            # A definition with what is not JSON, such as 1e999: the engine refuses it, and says why.
            return None
        if deferral is None or deferral.declared:
            return deferral
        query, count = first_query(request.messages), self._settings.preselected
        # Among all tools, as every search, so that there is one index: those that are listed anyway are left out.
        limit = count + len(deferral.front)
        names = await self._find(query, limit, deferral.tools) if query and count else ()
        return deferral.with_preselected(names)

    async def _search(self, answer: _Answer, call: ToolCall) -> ToolSearch:
        if not answer.may_search:
            return answer.deferral.refuse(call)
        query = query_of(call)
        if answer.deferral.declared:
            return await self._declared(answer, call, query)
        names = await self._find_for_model(query, self._settings.found, answer.candidates) if query.strip() else ()
        return answer.deferral.answer(call, names, answer.plan)

    async def _declared(self, answer: _Answer, call: ToolCall, query: str) -> ToolSearch:
        """Answer a search that the client declared. What goes wrong in it stands in the answer, as at the vendors."""
        deferral = answer.deferral
        deferred = deferral.deferred
        tools = {name: deferred[name] for name in answer.candidates if name in deferred}
        try:
            names = await self._find_declared(query, deferral.settings.found, tools) if query.strip() else ()
        except DefinitionError as refusal:
            return deferral.fail(call, INVALID if refusal.code == INVALID else UNAVAILABLE)
        declared = answer.original.tool_search
        if declared is not None:
            # The APIs list what was found by namespace.
            groups = list(dict.fromkeys(declared.namespaces.get(name, "") for name in names))
            names = sorted(names, key=lambda name: groups.index(declared.namespaces.get(name, "")))
        return deferral.answer(call, names, answer.plan)


@dataclass(slots=True)
class _Answer:
    """One reply under way: several requests to the engine."""

    deferral: Deferral
    original: ToolCallRequest
    memory: SearchMemory | None
    has_allowed_choice: bool
    """Whether the engine can be kept to some of the tools that its prompt lists."""
    fold: ReplyFold = field(default_factory=ReplyFold)
    usage: Usage | None = None
    calls: int = 0
    """How many calls were passed on: the index of the next one."""
    searches: int = 0
    plan: DeferralPlan = field(init=False)
    candidates: Mapping[str, ToolDefinition] = field(init=False)
    """What a search may find."""
    _messages: tuple[ChatMessage, ...] = field(init=False)
    _choice: ToolChoice = field(init=False)

    def __post_init__(self) -> None:
        original = self.original
        # The policy asks whether the model has called a tool yet. A search is not an answer to that.
        self._choice = replace(original, messages=without_searches(original.messages)).choice
        self._choice.select_tools(self.deferral.tools.values())
        tools = self.deferral.tools
        messages = original.messages
        self._messages = messages if self.memory is None else self.memory.restore(messages, tools.values())
        names = self._choice.names
        # The search finds all that may be called, loaded or not: a model that searches for what it has must find it.
        self.candidates = tools if names is None else {name: tools[name] for name in names}
        self.plan = self.deferral.plan(self._messages)

    def load_named(self) -> list[ToolSearch]:
        """Load the tools that the choice names, where they fit: the model has no other to search for."""
        available = set(self.plan.names)
        missing = [name for name in self._choice.names or () if name not in available]
        tools = self.deferral.tools
        if not missing or (len(missing) > 1 and sum(tools[one].characters for one in missing) > self.deferral.budget):
            return []
        search = self.deferral.search_for(missing, len(self.plan.messages))
        self.fold.add(search)
        return [search]

    @property
    def may_search(self) -> bool:
        return self.searches < self.deferral.settings.searches

    @property
    def tokens_left(self) -> int | None:
        """How many tokens the rest of the answer may have; None without a limit."""
        if self.original.max_tokens is None:
            return None
        return self.original.max_tokens - (self.usage.completion_tokens if self.usage else 0)

    def add_search(self, search: ToolSearch) -> None:
        """Add an answered search. What is loaded changes with it, and the result of the next one depends on that."""
        self.searches += 1
        self.fold.add(search)
        self._update_plan()

    def _update_plan(self) -> DeferralPlan:
        *searches, last = self.fold.reply().as_messages()
        current = (*searches, *((last,) if last.parts else ()))
        self.plan = self.deferral.plan((*self._messages, *current))
        return self.plan

    def request(self) -> ToolCallRequest:
        """Return the next request to the engine."""
        plan = self._update_plan()
        choice, tools = self._choice_of(plan)
        return replace(
            self.original,
            messages=plan.messages,
            tools=tools,
            described_tools=frozenset(plan.loaded),
            tool_search=None,
            tool_choice=choice,
            tool_choice_policy=ChoicePolicy.AUTO,
            max_tokens=self.tokens_left,
            # It lists all tools.
            client_body=None,
        )

    def _choice_of(self, plan: DeferralPlan) -> tuple[ToolChoice, tuple[ToolDefinition, ...]]:
        """Return the choice among the tools of a prompt, and the tools."""
        choice, search = self._choice, self.deferral.search.name
        may_search = self.may_search
        if choice.mode is ChoiceMode.NONE or (choice.names is None and may_search):
            return choice, plan.tools
        names = [name for name in plan.names if name != search and name in self.candidates]
        is_complete = choice.names is not None and len(names) == len(self.candidates)
        if may_search and not is_complete:
            names.append(search)
        if not names:
            return ToolChoice.none(), plan.tools
        if choice.names is None and not self.has_allowed_choice:
            # The end of the searches must not depend on what the engine can do.
            return choice, tuple(tool for tool in plan.tools if tool.name != search)
        return ToolChoice.allowed(names, choice.mode), plan.tools

    def end_round(self, events: _Round) -> None:
        self.usage = add_usage(self.usage, events.finish.usage if events.finish else None)
        self.calls = events.calls

    def continues(self, events: _Round) -> bool:
        """Whether the model is asked again: it searched, and wrote no call that somebody has to run first."""
        if not events.searches or events.has_calls or self._is_cut_off(events):
            return False
        # A model that may not search any more and searches again would do so for ever.
        return self.searches - len(events.searches) < self.deferral.settings.searches

    def _is_cut_off(self, events: _Round) -> bool:
        """Whether the answer has all the tokens that it may have."""
        is_full = self.tokens_left is not None and self.tokens_left < 1
        has_more = bool(events.searches) and not events.has_calls
        return (events.finish is not None and events.finish.reason is FinishReason.LENGTH) or (is_full and has_more)

    def finish(self, events: _Round) -> Finish:
        assert events.finish is not None
        reason = events.finish.reason
        if self._is_cut_off(events):
            reason = FinishReason.LENGTH
        if reason is FinishReason.TOOL_CALLS and not events.has_calls:
            reason = FinishReason.STOP
        if reason is FinishReason.STOP and self._choice.mode is ChoiceMode.REQUIRED and not events.has_calls:
            # The engine counts a search as a call; the client that demanded one does not.
            raise NoValidCallError(
                "tool_choice requires a call, and the model only searched for tools", hint="Name the tool to call."
            )
        loaded = frozenset(self.plan.names)
        return replace(events.finish, reason=reason, usage=self.usage, loaded=loaded)

    def remember(self) -> None:
        reply = self.fold.reply()
        if self.memory is not None and reply.searches:
            self.memory.store(reply, self.original.messages, self.deferral.tools.values())


@dataclass(slots=True)
class _Round:
    """The events of one request to the engine, without the calls of the search."""

    search_name: str
    calls: int
    searches: list[ToolCall] = field(default_factory=list[ToolCall])
    finish: Finish | None = None
    has_calls: bool = False
    _indexes: dict[int, int] = field(default_factory=dict[int, int])
    """The index of each call in the whole reply, by the engine's index."""
    _open: dict[int, tuple[str, list[str]]] = field(default_factory=dict[int, tuple[str, list[str]]])
    """The searches that are being written: id and arguments."""

    @property
    def has_ended(self) -> bool:
        return self.finish is not None

    def feed(self, event: Event) -> list[Event]:
        """Return what to pass on."""
        match event:
            case CallStart(index, id, name) if name == self.search_name:
                self._open[index] = (id, [])
                return []
            case CallStart(index):
                self._indexes[index] = self.calls
                self.calls += 1
                return [replace(event, index=self._indexes[index])]
            case ArgumentsDelta(index, json) if index in self._open:
                self._open[index][1].append(json)
                return []
            case CallEnd(index, complete, receipt) if index in self._open:
                id, pieces = self._open.pop(index)
                if complete:
                    function = FunctionCall(self.search_name, "".join(pieces))
                    self.searches.append(ToolCall(id, function, TOOL_SEARCH, receipt=receipt))
                return []
            case ArgumentsDelta(index) | CallEnd(index):
                self.has_calls = self.has_calls or (isinstance(event, CallEnd) and event.complete)
                return [replace(event, index=self._indexes[index])]
            case Diagnostic(index=int(index)):
                return [replace(event, index=self._indexes.get(index))]
            case Finish():
                self.finish = event
                return []
            case _:
                return [event]


_BYTES_PER_CHARACTER = 3
"""A definition as objects of Python, beside its text."""


_CacheKey: TypeAlias = tuple[str, DeferralSettings, bool, str]


class DeferralCache:
    """The deferrals of sets of tools: a client sends the same set with each request, and so does a conversation.

    All clients share it, and what is found in it becomes the rule. So the key tells apart whatever JSON tells apart:
    to Python, `True` equals 1, and two dictionaries are equal in any order.
    """

    def __init__(self) -> None:
        self._cache: ByteCache[_CacheKey, tuple[tuple[ToolDefinition, ...], Deferral]] = ByteCache(
            lambda key, value: _BYTES_PER_CHARACTER * sum(tool.characters for tool in value[0])
        )

    def get(
        self,
        tools: tuple[ToolDefinition, ...],
        settings: DeferralSettings,
        source_of: Callable[[str], str] | None,
        declared: DeclaredSearch | None = None,
    ) -> Deferral | None:
        if not tools or not (settings.above_tokens or declared):
            return None
        of_client = digest(declared.as_json()) if declared else ""
        key = digest([_identity(tool) for tool in tools]), settings, source_of is not None, of_client
        cached = self._cache.lookup(key)
        if cached is not None:
            return cached[1]
        if declared is None:
            deferral = Deferral.of(tools, settings, source_of)
        else:
            deferral = Deferral.of_declared(tools, settings, declared)
        if deferral is not None:
            # With the tools, so that no other object gets the number of one of them.
            self._cache.put(key, (tools, deferral))
        return deferral


def _identity(tool: ToolDefinition) -> int | str:
    """Return what no other tool has. Admitted tools are shared and never modified: their object says it at once."""
    if tool.admitted_parameters is tool.parameters:
        return id(tool)
    grammar = tool.input_grammar.as_json() if tool.input_grammar else None
    execution = [tool.bound_capability, tool.bound_version, tool.side_effects]
    # The order of keys counts, as in a prompt.
    return dumps([tool.name, tool.description, tool.parameters, execution, tool.is_custom, grammar])


class SearchMemory:
    """The searches of replies that clients send back without them, for a while.

    `owner` separates principals: nobody's history is completed with the searches of somebody else.
    """

    def __init__(self, *owner: str, cache: ByteCache[str, tuple[ChatMessage, ...]] | None = None) -> None:
        self._owner = owner
        self._cache = ByteCache(_messages_size) if cache is None else cache

    def for_owner(self, *owner: str) -> SearchMemory:
        return SearchMemory(*owner, cache=self._cache)

    def store(self, reply: Reply, messages: Iterable[ChatMessage], tools: Iterable[ToolDefinition]) -> None:
        """Keep the searches of a reply to these messages with these tools, in place of those of an earlier reply."""
        *searches, last = reply.as_messages()
        history = self._history(tools)
        for message in messages:
            history.add(message)
        self._cache.put(history.key_of(last.tool_calls, reply.text), tuple(searches))

    def restore(self, messages: Sequence[ChatMessage], tools: Iterable[ToolDefinition]) -> tuple[ChatMessage, ...]:
        """Return the messages with the searches where they were made."""
        if not any(message.role is Role.ASSISTANT for message in messages):
            return tuple(messages)
        history = self._history(tools)
        restored: list[ChatMessage] = []
        for message in messages:
            searches = None
            # A conversation in the ledger has its searches.
            has_search = restored and any(one.tool_call_id in history.searches for one in restored[-1].results)
            if message.role is Role.ASSISTANT and not has_search:
                searches = self._cache.lookup(history.key_of(message.tool_calls, message.content))
            history.add(message)
            if searches is None:
                restored.append(message)
                continue
            restored += _divide(message, searches)
        return tuple(restored)

    def _history(self, tools: Iterable[ToolDefinition]) -> _History:
        return _History(digest([*self._owner, sorted(tool.fingerprint for tool in tools)]))


@dataclass(slots=True)
class _History:
    """What was before a reply, as a digest: an application has one key for many people, whose first words are alike."""

    before: str
    searches: set[str] = field(default_factory=set[str])
    """The ids of the searches that the messages have."""

    def key_of(self, calls: Iterable[ToolCall], text: str) -> str:
        """Return the key of a reply to these messages. Clients change texts more often than ids."""
        return digest([self.before, [[call.id, call.name] for call in calls] or text.strip()])

    def add(self, message: ChatMessage) -> None:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                (self.searches.add if part.type == TOOL_SEARCH else self.searches.discard)(part.id)
                if part.type == TOOL_SEARCH:
                    continue
            elif isinstance(part, ToolResult) and part.tool_call_id in self.searches:
                continue
            # Clients leave out the reasoning of earlier replies, and divide texts as they like.
            if not isinstance(part, Text | Reasoning):
                parts.append(part)
        text = message.content.strip()
        if parts or text:
            self.before = digest([self.before, text, messages_as_json([ChatMessage(message.role, parts)])])


def _divide(message: ChatMessage, searches: tuple[ChatMessage, ...]) -> list[ChatMessage]:
    """Return the searches and what the message has besides. What was written before a search stands before it."""
    text, reasoning = message.content, message.reasoning
    parts_before = [part for one in searches for part in one.parts]
    text_before = "".join(part.text for part in parts_before if isinstance(part, Text))
    reasoning_before = "".join(part.text for part in parts_before if isinstance(part, Reasoning))
    has_text, has_reasoning = text.startswith(text_before), reasoning.startswith(reasoning_before)
    kept: list[ChatMessage] = []
    for one in searches:
        parts = tuple(
            part
            for part in one.parts
            if (has_text or not isinstance(part, Text)) and (has_reasoning or not isinstance(part, Reasoning))
        )
        kept.append(ChatMessage(one.role, parts))
    rest = _without_start(message.parts, Text, len(text_before) if has_text else 0)
    rest = _without_start(rest, Reasoning, len(reasoning_before) if has_reasoning else 0)
    return [*kept, ChatMessage(message.role, rest)] if rest else kept


def _without_start(parts: tuple[Part, ...], kind: type[Text] | type[Reasoning], length: int) -> tuple[Part, ...]:
    """Return the parts without so many characters of the first texts of a kind."""
    rest: list[Part] = []
    for part in parts:
        if isinstance(part, kind) and length:
            removed = min(length, len(part.text))
            length -= removed
            if removed == len(part.text):
                continue
            rest.append(replace(part, text=part.text[removed:]))
        else:
            rest.append(part)
    return tuple(rest)


def _messages_size(key: str, messages: tuple[ChatMessage, ...]) -> int:
    texts = (result.text for message in messages for result in message.results)
    return ENTRY_BYTES * (1 + len(messages)) + sum(map(len, texts)) * 2
