"""ToolConversation: talk to a model that has tools. Bound tools run by themselves; of others the calls are handed out.

It can be saved as JSON at any time between turns and continued elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.choice import ToolChoice
from ferrule.core.context import CallContext
from ferrule.core.event import Event
from ferrule.core.message import ChatMessage, Role
from ferrule.core.message_json import messages_as_json, messages_from_json
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.bridge import run
from ferrule.engines.engine import Engine
from ferrule.errors import DefinitionError
from ferrule.run.executor import ToolExecutor
from ferrule.run.happened import LoopEnded, LoopEvent
from ferrule.run.loop import Decide, Loop, nobody
from ferrule.run.machine import State
from ferrule.schema.define import FunctionTool
from ferrule.sources.functions import Functions
from ferrule.sources.source import Source

_VERSION = 1
Tools = Source | ToolExecutor | Iterable[ToolDefinition | FunctionTool[..., Any] | Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """What one turn came to. `calls` are those that the caller has to run, where the tools are not bound."""

    reply: Reply
    calls: tuple[ToolCall, ...] = ()
    state: State = State.DONE

    @property
    def text(self) -> str:
        return self.reply.text

    @property
    def needs_results(self) -> bool:
        return bool(self.calls)


class ToolConversation:
    """`tools` are functions or a source, which are bound, or definitions alone, whose calls are handed out.

    `request` holds everything else that is asked with every turn: the choice, the budget, the temperature.
    """

    def __init__(
        self,
        engine: Engine,
        tools: Tools = (),
        *,
        system: str = "",
        request: ToolCallRequest | None = None,
        decide: Decide = nobody,
        context: CallContext | None = None,
    ) -> None:
        self.engine = engine
        self.messages: list[ChatMessage] = [ChatMessage.system(system)] if system else []
        self._request = request or ToolCallRequest(messages=())
        self._decide = decide
        self._context = context or CallContext()
        self._executor, self._definitions = _bound(tools)
        self._last = ConversationTurn(Reply())

    async def send_message(self, text: str) -> ConversationTurn:
        """The user says something; what comes of it."""
        async with aclosing(self.stream(text)) as events:
            async for _ in events:
                pass
        return self._last

    async def submit_tool_results(self, results: Iterable[ToolResult]) -> ConversationTurn:
        """The results of calls that were handed out; only these are added, and the model goes on."""
        given = tuple(results)
        missing = {call.id for call in self._last.calls} - {result.tool_call_id for result in given}
        unasked = {result.tool_call_id for result in given} - {call.id for call in self._last.calls}
        if missing or unasked or not given:
            raise DefinitionError(
                f"the results do not answer the calls (missing: {sorted(missing)}, not asked for: {sorted(unasked)})",
                hint="Give one result for each call of the last turn, errors included.",
            )
        self.messages.append(ChatMessage(Role.TOOL, given))
        async with aclosing(self._by_hand()) as events:
            async for _ in events:
                pass
        return self._last

    async def stream(self, text: str) -> AsyncGenerator[LoopEvent]:
        """The same as `send_message`, as it happens; the turn is `last` when it is over."""
        if self._last.calls:
            raise DefinitionError(
                "the last turn's calls have no results yet", hint="Give them with submit_tool_results first."
            )
        self.messages.append(ChatMessage.user(text))
        async with aclosing(self._by_hand() if self._executor is None else self._by_itself()) as events:
            async for event in events:
                yield event

    def send(self, text: str) -> ConversationTurn:
        """`send_message`, for a program that is not asynchronous."""
        return run(self.send_message(text))

    @property
    def last(self) -> ConversationTurn:
        """The turn that ended last."""
        return self._last

    def save(self) -> dict[str, Any]:
        """The whole conversation as JSON. Engines and tools are not in it: they are given again to `load`."""
        return {"version": _VERSION, "messages": messages_as_json(self.messages)}

    @staticmethod
    def load(held: Mapping[str, Any], engine: Engine, tools: Tools = (), **options: Any) -> ToolConversation:
        """A saved conversation, continued here."""
        if held.get("version") != _VERSION:
            raise DefinitionError(f"a conversation of version {held.get('version')!r} cannot be read")
        made = ToolConversation(engine, tools, **options)
        made.messages = list(messages_from_json(held["messages"]))
        last = made.messages[-1] if made.messages else None
        if last is not None and last.tool_calls and made._executor is None:
            made._last = ConversationTurn(Reply(tuple(last.tool_calls)), last.tool_calls)
        return made

    async def _by_itself(self) -> AsyncGenerator[LoopEvent]:
        assert self._executor is not None
        await self._executor.refresh()
        asked = replace(self._request, messages=tuple(self.messages))
        loop = Loop(self.engine, self._executor, asked, self._context, self._decide)
        try:
            async with aclosing(loop.stream()) as events:
                async for event in events:
                    yield event
        finally:
            # What was said and done stays said and done, also where the rest was broken off.
            self.messages += _whole(loop.added)
            self._last = ConversationTurn(loop.reply, (), loop.machine.state)

    async def _by_hand(self) -> AsyncGenerator[LoopEvent]:
        choice = self._request.tool_choice if self._definitions else ToolChoice.auto()
        asked = replace(self._request, messages=tuple(self.messages), tools=self._definitions, tool_choice=choice)
        folding = Folding()
        async with aclosing(self.engine.stream(asked)) as events:
            event: Event
            async for event in events:
                folding.add(event)
                yield event
        reply = folding.reply()
        self.messages.append(reply.as_message())
        self._last = ConversationTurn(reply, reply.calls, State.WAITING if reply.calls else State.DONE)
        yield LoopEnded(self._last.state)


def _bound(tools: Tools) -> tuple[ToolExecutor | None, tuple[ToolDefinition, ...]]:
    if isinstance(tools, ToolExecutor):
        return tools, ()
    if isinstance(tools, Source):
        return ToolExecutor(tools), ()
    given = tuple(tools)
    definitions = tuple(one for one in given if isinstance(one, ToolDefinition))
    functions = [one for one in given if not isinstance(one, ToolDefinition)]
    if definitions and functions:
        raise DefinitionError(
            "functions, which run by themselves, are mixed with definitions, which do not",
            hint="Give functions alone, or definitions alone and run every call yourself.",
        )
    return (ToolExecutor(Functions(functions)), ()) if functions else (None, definitions)


def _whole(added: list[ChatMessage]) -> list[ChatMessage]:
    """Messages up to the last call that has its results: a call without one would confuse every template."""
    kept = list(added)
    while kept and kept[-1].tool_calls:
        kept.pop()
    return kept
