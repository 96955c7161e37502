"""ToolConversation: a conversation with a model that has tools.

Functions and sources run automatically. For bare definitions, the calls are returned and the caller runs them.

You can save a conversation as JSON between turns and continue it elsewhere. With a ledger it is recorded as it runs,
and another process can resume it in the middle of a turn.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.call import Receipt, ToolCall, ToolResult
from ferrule.core.context import CallContext
from ferrule.core.conversion import MessagesInput, to_messages
from ferrule.core.event import Event
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Role, messages_as_json, messages_from_json
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.sync import Closable, iterate, run
from ferrule.errors import DefinitionError, FencedError, FerruleError, LedgerUnavailableError
from ferrule.run.decision import DecideInput, to_decide
from ferrule.run.deferral import DeferralSettings, FindTools
from ferrule.run.deferring_engine import DeferringEngine
from ferrule.run.events import LoopEnded, LoopEvent
from ferrule.run.executor import ToolExecutor
from ferrule.run.hooks import Hook, to_hooks
from ferrule.run.journal import LoopState
from ferrule.run.lease import Lease
from ferrule.run.ledger.ledger import CallRecord, Ledger
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger_journal import LedgerJournal, PreparedSave
from ferrule.run.loop import Loop, decide_later, deny_all
from ferrule.run.machine import FINAL_STATES, Machine, State
from ferrule.run.tool_binding import Tools, bind_tools
from ferrule.run.tool_usage import ToolUsage
from ferrule.run.turn_record import TurnRecord, message_events, receipts_from_dict, turn_events, usage_from_list

_VERSION = 1


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """The result of one turn. `calls` are those that the caller has to run, where the tools are bare definitions.

    Example:
        turn = await conversation.send_message("What is 2 and 3?")
        if turn.needs_results:
            results = [ToolResult(call.id, call.name, my_run(call)) for call in turn.calls]
            turn = await conversation.submit_tool_results(results)
        print(turn.text)
    """

    reply: Reply
    calls: tuple[ToolCall, ...] = ()
    state: State = State.DONE

    @property
    def text(self) -> str:
        return self.reply.text

    @property
    def content(self) -> str | None:
        return self.reply.content

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.calls

    @property
    def value(self) -> Any:
        """The answer as an object of the `response_type`; see `Reply.value`."""
        return self.reply.value

    @property
    def needs_results(self) -> bool:
        return bool(self.calls)


class ToolConversation(Closable):
    """A conversation with a model that has tools.

    `engine` may be a string for `load_engine`; `close` then closes the engine too. `tools` are functions or a source,
    which run automatically, or bare definitions, whose calls you run yourself. `request` holds everything else that
    goes with every turn: the choice, the budget, the temperature. `decide` is asked before a tool with side effects
    runs; by default such calls are denied. Methods are asynchronous; those that end in `_sync` are for synchronous
    programs.

    Example:
        @tool
        def add(a: int, b: int) -> int:
            return a + b

        with ToolConversation("llama:model.gguf", [add], system="Be brief.") as conversation:
            print(conversation.send_message_sync("What is 2 and 3?").text)
    """

    def __init__(
        self,
        engine: Engine | str,
        tools: Tools = (),
        *,
        system: str = "",
        request: ToolCallRequest | None = None,
        decide: DecideInput = deny_all,
        context: CallContext | None = None,
        instructions: str = "",
        on_usage: Callable[[str, ToolUsage], None] | None = None,
        hooks: Iterable[Hook] = (),
        client_tools: Iterable[ToolDefinition] = (),
        deferral: DeferralSettings | None = None,
    ) -> None:
        """`instructions` precede the messages in every request, and are not part of the conversation.

        `client_tools` are offered beside tools that run automatically. A turn ends with their calls, after the other
        calls of that reply have ended; then call `submit_tool_results`.
        `hooks` run around calls and replies; they need tools that run automatically. See `ferrule.hooks`.
        `on_usage` is called after each reply to which tools were offered, with the model and the tools it called.
        With `deferral` the model sees a few of many tools and searches for the others; see `DeferralSettings`.
        """
        self.engine = _to_engine(engine)
        if deferral is not None:
            self.engine = DeferringEngine(self.engine, deferral, _tool_finder())
        self._owns_engine = isinstance(engine, str)
        self.messages: list[ChatMessage] = [ChatMessage.system(system)] if system else []
        self._request = request or ToolCallRequest(messages=())
        self._decide = to_decide(decide)
        self._context = context or CallContext()
        self._preamble = (ChatMessage.system(instructions),) if instructions else ()
        self._on_usage = on_usage
        self._executor, self._definitions = bind_tools(tools)
        self._hooks = to_hooks(hooks)
        if self._hooks:
            self._require_executor("hooks need")
        self._client_tools = tuple(client_tools)
        if self._client_tools:
            self._require_executor("client_tools need")
        self._last = ConversationTurn(Reply())
        self._lease: Lease | None = None
        self._was_recorded = False
        """Whether the ledger has the conversation, once it is closed."""
        self._releases = True
        self._is_one_turn = False
        self._patience = 0.0
        self._unfinished_loop: LoopState | None = None
        """The loop of a turn that has not ended."""
        self._stored: Sequence[ChatMessage] = ()
        """The messages as the ledger has them: those of the conversation and of an unfinished turn."""
        self._turn_record: TurnRecord | None = None
        """Of the last turn, if it has ended."""

    @staticmethod
    async def open(
        ledger: Ledger,
        id: str,
        engine: Engine | str,
        tools: Tools = (),
        *,
        lease: float = 30.0,
        patience: float = 0.0,
        waits: bool = False,
        is_one_turn: bool = False,
        decide: DecideInput = decide_later,
        clock: Callable[[], float] = time.time,
        **options: Any,
    ) -> ToolConversation:
        """Open a conversation in a ledger: a new one, or an existing one as this or another process left it.

        If it `is_unfinished`, call `resume`. Calls with side effects wait for approval in the ledger: for `patience`
        seconds here, and then until `resume`. While another process owns the conversation, this raises `FencedError`,
        or with `waits` returns when that process has released it, or has died. With `is_one_turn` the conversation is
        released with the end of its next turn.
        """
        conversation = ToolConversation(engine, tools, decide=decide, **options)
        conversation._require_executor()
        principal = conversation._context.principal
        acquire = Lease.wait if waits else Lease.acquire
        conversation._use_lease(await acquire(ledger, id, principal, lease, clock), patience)
        conversation._is_one_turn = is_one_turn
        return conversation

    @staticmethod
    def with_lease(
        lease: Lease,
        engine: Engine,
        tools: Tools = (),
        *,
        patience: float = 0.0,
        is_one_turn: bool = False,
        decide: DecideInput = decide_later,
        **options: Any,
    ) -> ToolConversation:
        """Open a conversation on which this process already has a lease.

        With `is_one_turn` the conversation is released with the end of its next turn, or when it is closed.
        """
        conversation = ToolConversation(engine, tools, decide=decide, **options)
        conversation._require_executor()
        conversation._use_lease(lease, patience)
        conversation._releases = conversation._is_one_turn = is_one_turn
        return conversation

    def _require_executor(self, subject: str = "a conversation in a ledger needs") -> None:
        if self._executor is None:
            raise DefinitionError(
                f"{subject} tools that run automatically",
                hint="Pass functions or a source instead of bare definitions.",
            )

    def _use_lease(self, lease: Lease, patience: float) -> None:
        self._lease = lease
        self._context = replace(self._context, conversation=lease.record.id)
        self._patience = patience
        state = lease.record.state
        if state is not None:
            self._restore(state)
        stored = self._all_messages(self._unfinished_loop)
        # The state of an earlier version contains its messages: they are stored as rows with the next one.
        self._stored = stored if lease.record.messages == len(stored) else ()

    @property
    def is_recorded(self) -> bool:
        """Whether the ledger has the conversation. A new one is opened by the first write."""
        return self._was_recorded if self._lease is None else self._lease.is_open

    @property
    def is_unfinished(self) -> bool:
        """Whether a turn was started and has not ended."""
        return self._unfinished_loop is not None

    async def resume(self) -> ConversationTurn:
        """Resume a turn that has not ended: after a decision on an approval, or after a process died."""
        async with aclosing(self.stream_resumed()) as events:
            async for _ in events:
                pass
        return self._last

    def abandon(self) -> dict[str, Any]:
        """Drop the rest of an unfinished turn, keep its complete rounds, and return the conversation as JSON."""
        if self._unfinished_loop is not None:
            self.messages = list(messages_of(self.save()))
            self._unfinished_loop = None
        return self.save()

    async def close(self) -> None:
        """Release the conversation, so that another process can open it at once; with `with_lease`, the lease stays.

        An engine that the conversation loaded from a string is closed.
        """
        if self._lease is not None and self._releases:
            await self._lease.release()
        self._was_recorded, self._lease = self.is_recorded, None
        if self._owns_engine:
            await self.engine.close()

    async def send_message(self, text: MessagesInput) -> ConversationTurn:
        """Send a user message, or messages of any role, and return the finished turn."""
        async with aclosing(self.stream(text)) as events:
            async for _ in events:
                pass
        return self._last

    async def submit_tool_results(self, results: Iterable[ToolResult]) -> ConversationTurn:
        """Add the results of the last turn's calls and let the model continue."""
        names = {call.id: call.name for call in self._last.calls}
        answers = tuple(one if one.name else replace(one, name=names.get(one.tool_call_id, "")) for one in results)
        missing = {call.id for call in self._last.calls} - {result.tool_call_id for result in answers}
        unexpected = {result.tool_call_id for result in answers} - {call.id for call in self._last.calls}
        if missing or unexpected or not answers:
            raise DefinitionError(
                f"the results do not match the calls (missing: {sorted(missing)}, unexpected: {sorted(unexpected)})",
                hint="Pass one result for each call of the last turn, errors included.",
            )
        message = ChatMessage(Role.TOOL, answers)
        if self._executor is None:
            self.messages.append(message)
            rest = self._ask_once()
        else:
            self._last = ConversationTurn(Reply())
            rest = self._run_loop([message])
        async with aclosing(rest) as events:
            async for _ in events:
                pass
        return self._last

    def stream(self, text: MessagesInput) -> AsyncGenerator[LoopEvent]:
        """Do the same as `send_message`, but yield the events. Afterwards the turn is in `last`."""
        return self.answer(to_messages(text))

    def answer(self, messages: Iterable[ChatMessage]) -> AsyncGenerator[LoopEvent]:
        """Append messages of any role, run the turn and yield its events."""
        return self._ask_once(messages) if self._executor is None else self._run_loop(messages)

    def stream_resumed(self) -> AsyncGenerator[LoopEvent]:
        """Do the same as `resume`, but yield the events."""
        return self._run_loop()

    async def stream_joined(self, messages: Iterable[ChatMessage]) -> AsyncGenerator[LoopEvent]:
        """Answer messages, as `answer` does, that this conversation may have begun or ended to answer before.

        The events are those of the whole turn: what was done before is not done again, but reported again.
        """
        if self._unfinished_loop is not None:
            for event in message_events(self._unfinished_loop.messages, self._saved_receipts()):
                yield event
        elif self._turn_record is not None:
            for event in self.replay():
                yield event
            return
        elif self.messages:
            # The state of an earlier release, or of a turn that was abandoned: it has ended, and nothing says how.
            yield LoopEnded(State.DONE)
            return
        async with aclosing(self._run_loop(None if self._unfinished_loop is not None else messages)) as events:
            async for event in events:
                yield event

    def replay(self) -> Iterator[LoopEvent]:
        """Yield the events of the last turn again, if it has ended."""
        record = self._turn_record
        if record is not None:
            yield from turn_events(self.messages[record.start :], record)
            yield LoopEnded(State.DONE, record.limit, self._open_calls(record))

    def _open_calls(self, record: TurnRecord) -> tuple[ToolCall, ...]:
        """The calls at the end of the last turn that the caller runs."""
        names = {tool.name for tool in self._client_tools}
        last = next((one.tool_calls for one in reversed(self.messages[record.start :]) if one.tool_calls), ())
        is_answer = (
            bool(self.messages) and self.messages[-1].role is Role.ASSISTANT and not self.messages[-1].tool_calls
        )
        receipts = record.receipts
        open_calls = () if is_answer else tuple(call for call in last if call.name in names)
        return tuple(replace(call, receipt=receipts.get(call.id)) for call in open_calls)

    def send_message_sync(self, text: MessagesInput) -> ConversationTurn:
        """Call `send_message` from a synchronous program."""
        return run(self.send_message(text))

    def submit_tool_results_sync(self, results: Iterable[ToolResult]) -> ConversationTurn:
        """Call `submit_tool_results` from a synchronous program."""
        return run(self.submit_tool_results(results))

    def stream_sync(self, text: MessagesInput) -> Iterator[LoopEvent]:
        """Iterate over `stream` in a synchronous program."""
        return iterate(self.stream(text))

    def resume_sync(self) -> ConversationTurn:
        """Call `resume` from a synchronous program."""
        return run(self.resume())

    @property
    def last(self) -> ConversationTurn:
        """The turn that ended last."""
        return self._last

    def save(self) -> dict[str, Any]:
        """Return the conversation as JSON, without the engine and the tools: pass these to `load` again."""
        loop = self._unfinished_loop
        return self._state(messages_as_json(self.messages), None if loop is None else loop.as_dict())

    @staticmethod
    def load(data: Mapping[str, Any], engine: Engine | str, tools: Tools = (), **options: Any) -> ToolConversation:
        """Restore a conversation from what `save` returned."""
        conversation = ToolConversation(engine, tools, **options)
        conversation._restore(data)
        last = conversation.messages[-1] if conversation.messages else None
        if last is not None and last.tool_calls and conversation._executor is None:
            conversation._last = ConversationTurn(Reply(tuple(last.tool_calls)), last.tool_calls)
        return conversation

    def _require_turn_ended(self) -> None:
        if self._last.calls:
            raise DefinitionError(
                "the last turn's calls have no results yet", hint="Pass them to submit_tool_results first."
            )
        if self._unfinished_loop is not None:
            raise DefinitionError("the last turn has not ended", hint="Call resume first.")

    def _begin_turn(self, messages: Iterable[ChatMessage]) -> None:
        self._require_turn_ended()
        self._turn_record = None
        self.messages += messages

    async def _run_loop(self, messages: Iterable[ChatMessage] | None = None) -> AsyncGenerator[LoopEvent]:
        """Run a turn with new messages, or resume the unfinished one, if there is one."""
        if messages is not None:
            self._begin_turn(messages)
        elif self._unfinished_loop is None:
            return
        assert self._executor is not None
        await self._executor.refresh()
        loop = self._loop(self._executor)
        async with AsyncExitStack() as stack:
            journal = None
            if self._lease is not None:
                await stack.enter_async_context(self._lease)
                calls = await self._recorded_calls(self._lease, loop.place)
                # Of a new conversation only the first message can be lost; one that is resumed is saved already. One
                # that is not open is opened before the model is asked: then a retry finds it, and a ledger that cannot
                # keep the turn is met before it costs anything.
                is_begun = self._lease.is_open and (not self._stored or self._unfinished_loop is not None)
                journal = self._lease.journal(self._patience, self._prepare_save, calls, is_begun=is_begun)
                loop.journal = journal
                loop.drains_before_save = self._lease.save_override is not None
            try:
                while (event := await loop.next_event()) is not None:
                    yield event
            except FerruleError:
                if journal is not None:
                    await self._keep_what_waits(loop, journal)
                raise
            finally:
                await loop.stop()
                self._end_turn(loop)
            if journal is not None:
                await journal.end(self._unfinished_loop, releases=self._is_one_turn)
                self._releases = self._releases and not self._is_one_turn

    async def _recorded_calls(self, lease: Lease, place: str) -> dict[str, CallRecord]:
        """Return the calls of this turn that are in the ledger. A turn that begins has none."""
        if self._unfinished_loop is None:
            return {}
        calls = await lease.ledger.calls(lease.record.id)
        return {call.id: call for call in calls if call.id.startswith(f"{place}.")}

    async def _keep_what_waits(self, loop: Loop, journal: LedgerJournal) -> None:
        """Record what a turn has done that breaks off, so that it need not be done again."""
        await loop.stop()
        with suppress(FencedError, LedgerUnavailableError):
            await journal.flush()

    def _loop(self, executor: ToolExecutor) -> Loop:
        """Return a new loop, or restore the one that was interrupted."""
        request = replace(self._request, messages=(*self._preamble, *self.messages))
        loop = Loop(self.engine, executor, request, self._context, self._decide, place=str(len(self.messages)))
        loop.on_usage, loop.hooks, loop.client_tools = self._on_usage, self._hooks, self._client_tools
        if self._unfinished_loop is not None:
            data = self._unfinished_loop.data
            loop.place = data["place"]
            loop.new_messages = list(self._unfinished_loop.messages)
            last = loop.new_messages[-1].parts if loop.new_messages else ()
            loop.reply = Reply(tuple(part for part in last if not isinstance(part, ToolResult | Media)))
            # An earlier release saved neither.
            loop.usage = usage_from_list(data.get("usage"))
            loop.receipts = self._saved_receipts()
            loop.machine = Machine.from_dict(data["machine"], executor.policy)
        return loop

    def _end_turn(self, loop: Loop) -> None:
        state = loop.machine.state
        handed_out = loop.machine.handed_out
        self._last = ConversationTurn(
            loop.reply, tuple(call for call in loop.reply.calls if call.id in handed_out), state
        )
        if state is State.WAITING or (self._lease is not None and state not in FINAL_STATES):
            self._unfinished_loop = loop.snapshot()
            return
        if state is State.DONE:
            start, finish = len(self.messages), loop.reply.finish_reason
            ends = (loop.limit_notice, loop.receipts, loop.reply.stop)
            self._turn_record = TurnRecord(start, finish, loop.usage, *ends)
        # Complete rounds stay in the conversation, even if the rest of the turn was cancelled.
        self.messages += loop.new_messages if handed_out else _complete_rounds(loop.new_messages)
        self._unfinished_loop = None

    def _saved_receipts(self) -> dict[str, Receipt]:
        return receipts_from_dict(self._unfinished_loop.data.get("receipts", {}) if self._unfinished_loop else {})

    def _state(self, messages: object, loop: Mapping[str, Any] | None) -> dict[str, Any]:
        state = {"version": _VERSION, "messages": messages, "loop": loop}
        return state if self._turn_record is None else {**state, "turn": self._turn_record.as_dict()}

    def _prepare_save(self, loop: LoopState | None) -> PreparedSave:
        """Return the conversation with its loop; of the messages only those that the ledger does not have."""
        messages = self._all_messages(loop)
        same = zip(messages, self._stored, strict=False)
        first = next((number for number, (one, stored) in enumerate(same) if one is not stored), None)
        if first is None:
            first = min(len(messages), len(self._stored))
        added = len(loop.messages) if loop is not None else 0
        rest = self._state(len(self.messages), None if loop is None else {**loop.data, "added": added})

        def confirm() -> None:
            self._stored = messages

        return PreparedSave(StateUpdate(rest, messages_as_json(messages[first:]), first), confirm)

    def _all_messages(self, loop: LoopState | None) -> list[ChatMessage]:
        return [*self.messages, *(loop.messages if loop is not None else ())]

    def _restore(self, data: Mapping[str, Any]) -> None:
        if data.get("version") != _VERSION:
            raise DefinitionError(
                f"cannot load a conversation of version {data.get('version')!r}: this release reads version {_VERSION}"
            )
        self.messages = list(messages_from_json(data["messages"]))
        loop = data.get("loop")
        self._unfinished_loop = None if loop is None else _loop_state(loop)
        self._turn_record = TurnRecord.from_dict(data["turn"]) if data.get("turn") else None

    async def _ask_once(self, messages: Iterable[ChatMessage] | None = None) -> AsyncGenerator[LoopEvent]:
        if messages is not None:
            self._begin_turn(messages)
        choice = self._request.tool_choice if self._definitions else ToolChoice.auto()
        request = replace(
            self._request,
            messages=(*self._preamble, *self.messages),
            tools=self._definitions,
            tool_choice=choice,
        )
        reply_fold = ReplyFold()
        async with aclosing(self.engine.stream_request(request)) as events:
            event: Event
            async for event in events:
                reply_fold.add(event)
                yield event
        reply = reply_fold.reply()
        self.messages += reply.as_messages()
        self._last = ConversationTurn(reply, reply.calls, State.WAITING if reply.calls else State.DONE)
        yield LoopEnded(self._last.state)


def _loop_state(data: Mapping[str, Any]) -> LoopState:
    rest = {name: value for name, value in data.items() if name != "added"}
    return LoopState(rest, tuple(messages_from_json(data["added"])))


def messages_of(data: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """Return the messages of a saved conversation. Of an unfinished turn, only the complete rounds are included."""
    loop = data.get("loop")
    new_messages = list(messages_from_json(loop["added"])) if loop else []
    if loop and not loop["machine"].get("handed_out"):
        new_messages = _complete_rounds(new_messages)
    return (*messages_from_json(data["messages"]), *new_messages)


def _to_engine(engine: Engine | str) -> Engine:
    if isinstance(engine, Engine):
        return engine
    if not isinstance(cast("object", engine), str):
        raise DefinitionError(
            f"{engine!r:.60} is not an engine", hint='Write "llama:PATH", or load_engine("llama:PATH").'
        )
    # Only a string needs the engines themselves; a conversation otherwise knows their interface.
    from ferrule.engines.registry import load_engine

    return load_engine(engine)


def _tool_finder() -> FindTools:
    # The index needs a package that few programs need.
    from ferrule.sources.search.tool_finder import ToolFinder

    return ToolFinder()


def _complete_rounds(new_messages: list[ChatMessage]) -> list[ChatMessage]:
    """Drop trailing calls that have no results yet: chat templates do not accept a call without one."""
    complete = list(new_messages)
    while complete and complete[-1].tool_calls:
        complete.pop()
    return complete
