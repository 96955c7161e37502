"""ToolConversation: talk to a model that has tools. Bound tools run by themselves; of others the calls are handed out.

It can be saved as JSON at any time between turns and continued elsewhere. With a ledger it is written down as it goes,
and another process can go on with it in the middle of a turn.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
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
from ferrule.engines.engine import Engine
from ferrule.engines.sync import run
from ferrule.errors import DefinitionError
from ferrule.run.events import LoopEnded, LoopEvent
from ferrule.run.executor import ToolExecutor
from ferrule.run.lease import Holding
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.loop import Decide, Loop, later, nobody
from ferrule.run.machine import OVER, Machine, State
from ferrule.schema.tool_decorator import FunctionTool
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
        self._holding: Holding | None = None
        self._releases = True
        self._patience = 0.0
        self._left: dict[str, Any] | None = None
        """The loop of a turn that is not over."""

    @staticmethod
    async def open(
        ledger: Ledger,
        id: str,
        engine: Engine,
        tools: Tools = (),
        *,
        lease: float = 30.0,
        patience: float = 0.0,
        decide: Decide = later,
        clock: Callable[[], float] = time.time,
        **options: Any,
    ) -> ToolConversation:
        """A conversation in a ledger: a new one, or an old one as it was left, by this process or one that died.

        Where `is_unfinished`, go on with `resume`. Calls that change the world wait for leave in the ledger, for
        `patience` seconds here and then until `resume`. `FencedError` while another process holds it.
        """
        made = ToolConversation(engine, tools, decide=decide, **options)
        made._check_bound()
        made._hold(await Holding.take(ledger, id, made._context.principal, lease, clock), patience)
        return made

    @staticmethod
    def held(
        holding: Holding,
        engine: Engine,
        tools: Tools = (),
        *,
        patience: float = 0.0,
        decide: Decide = later,
        **options: Any,
    ) -> ToolConversation:
        """The same, where this process holds the conversation already."""
        made = ToolConversation(engine, tools, decide=decide, **options)
        made._check_bound()
        made._hold(holding, patience)
        made._releases = False
        return made

    def _check_bound(self) -> None:
        if self._executor is None:
            raise DefinitionError("only a conversation whose tools run by themselves is kept in a ledger")

    def _hold(self, holding: Holding, patience: float) -> None:
        self._holding = holding
        self._context = replace(self._context, conversation=holding.record.id)
        self._patience = patience
        state = holding.record.state
        if state is not None:
            self._restore(state)

    @property
    def is_unfinished(self) -> bool:
        """Whether a turn was begun and is not over."""
        return self._left is not None

    async def resume(self) -> ConversationTurn:
        """Go on with a turn that is not over: after leave was given, or after a process died."""
        async with aclosing(self.stream_resumed()) as events:
            async for _ in events:
                pass
        return self._last

    def abandon(self) -> dict[str, Any]:
        """Give up the rest of a turn that is not over; the whole conversation as JSON, with what was said and done."""
        if self._left is not None:
            self.messages = list(settled_messages(self.save()))
            self._left = None
        return self.save()

    async def close(self) -> None:
        """Let another process have it at once; where the holding was given in, that is for who gave it."""
        if self._holding is not None and self._releases:
            await self._holding.release()
        self._holding = None

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
        async with aclosing(self.answer((ChatMessage.user(text),))) as events:
            async for event in events:
                yield event

    async def answer(self, messages: Iterable[ChatMessage]) -> AsyncGenerator[LoopEvent]:
        """The messages as they are, whoever said them; what comes of them, as it happens."""
        self._check_over()
        self.messages += messages
        async with aclosing(self._by_hand() if self._executor is None else self._by_itself()) as events:
            async for event in events:
                yield event

    async def stream_resumed(self) -> AsyncGenerator[LoopEvent]:
        """The same as `resume`, as it happens."""
        if self._left is not None:
            async with aclosing(self._by_itself()) as events:
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
        return self._kept(self._left)

    @staticmethod
    def load(held: Mapping[str, Any], engine: Engine, tools: Tools = (), **options: Any) -> ToolConversation:
        """A saved conversation, continued here."""
        made = ToolConversation(engine, tools, **options)
        made._restore(held)
        last = made.messages[-1] if made.messages else None
        if last is not None and last.tool_calls and made._executor is None:
            made._last = ConversationTurn(Reply(tuple(last.tool_calls)), last.tool_calls)
        return made

    def _check_over(self) -> None:
        if self._last.calls:
            raise DefinitionError(
                "the last turn's calls have no results yet", hint="Give them with submit_tool_results first."
            )
        if self._left is not None:
            raise DefinitionError("the last turn is not over", hint="Go on with it by resume first.")

    async def _by_itself(self) -> AsyncGenerator[LoopEvent]:
        assert self._executor is not None
        await self._executor.refresh()
        loop = self._loop(self._executor)
        async with AsyncExitStack() as stack:
            if self._holding is not None:
                await stack.enter_async_context(self._holding)
                loop.journal = self._holding.journal(self._kept, self._patience)
                loop.is_heard_first = self._holding.keeper is not None
            try:
                async with aclosing(loop.stream()) as events:
                    async for event in events:
                        yield event
            finally:
                self._settle(loop)
            if self._holding is not None:
                await self._holding.save(self.save())

    def _loop(self, executor: ToolExecutor) -> Loop:
        """A new loop, or the one that was left."""
        asked = replace(self._request, messages=tuple(self.messages))
        loop = Loop(self.engine, executor, asked, self._context, self._decide, place=str(len(self.messages)))
        if self._left is not None:
            loop.place = self._left["place"]
            loop.added = list(messages_from_json(self._left["added"]))
            last = loop.added[-1].parts if loop.added else ()
            loop.reply = Reply(tuple(part for part in last if not isinstance(part, ToolResult)))
            loop.machine = Machine.from_dict(self._left["machine"], executor.policy)
        return loop

    def _settle(self, loop: Loop) -> None:
        state = loop.machine.state
        self._last = ConversationTurn(loop.reply, (), state)
        if state is State.WAITING or (self._holding is not None and state not in OVER):
            self._left = loop.as_dict()
            return
        # What was said and done stays said and done, also where the rest was broken off.
        self.messages += _whole(loop.added)
        self._left = None

    def _kept(self, loop: dict[str, Any] | None) -> dict[str, Any]:
        return {"version": _VERSION, "messages": messages_as_json(self.messages), "loop": loop}

    def _restore(self, held: Mapping[str, Any]) -> None:
        if held.get("version") != _VERSION:
            raise DefinitionError(f"a conversation of version {held.get('version')!r} cannot be read")
        self.messages = list(messages_from_json(held["messages"]))
        self._left = held.get("loop")

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


def settled_messages(held: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """What was said and done in a saved conversation; of a turn that is not over, as far as calls have results."""
    loop = held.get("loop")
    added = _whole(list(messages_from_json(loop["added"]))) if loop else []
    return (*messages_from_json(held["messages"]), *added)


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
