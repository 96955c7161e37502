"""Loop: drives the state machine. It asks the engine, runs calls side by side, requests approvals and streams events.

It decides nothing: the machine says what comes next, and the executor what a call results in. After every step it saves
its state, so that another process can continue where this one stopped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ferrule.core.call import Receipt, ToolCall
from ferrule.core.context import CallContext, Progress
from ferrule.core.event import Usage, add_usage
from ferrule.core.message import ChatMessage, Role
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.errors import HookError
from ferrule.run.events import (
    ConfirmationRequired,
    LoopEnded,
    LoopEvent,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from ferrule.run.hook_runner import REFUSED, HookRunner, withheld_outcome
from ferrule.run.hooks import Hook, HookContext
from ferrule.run.journal import CallEntry, Decision, Journal, LoopState, NoJournal
from ferrule.run.machine import (
    AppendResults,
    AskModel,
    EndLoop,
    Machine,
    RequestApproval,
    RunCall,
    Step,
    denial_outcome,
)
from ferrule.run.model_round import ModelRound
from ferrule.run.reply_record import ReplyCost
from ferrule.run.tool_usage import ToolUsage, tool_usage_of
from ferrule.run.turn_record import usage_as_list

if TYPE_CHECKING:
    from ferrule.run.executor import ToolExecutor

Decide = Callable[[ToolCall], Awaitable[Decision | None]]
_log = logging.getLogger(__name__)
_WARNED_TOOLS: set[str] = set()
"""The tools whose denied calls were logged by this process."""
_TOOL_REMOVED = "it is offered no longer"
_AT_ONCE = 0.05
"""How many seconds a program's own decision may take until its request is recorded for others too."""


async def deny_all(call: ToolCall) -> Decision | None:
    """Deny every call that needs approval. This is the default, where no one can be asked.

    The log says so once per tool, because a call that is always denied is rarely what a program wants.
    """
    if call.name not in _WARNED_TOOLS:
        _WARNED_TOOLS.add(call.name)
        _log.warning(
            "the call of %r was denied: it has side effects, and nothing decides about such calls. Pass decide=, an "
            "async function that takes the call and returns Decision(True) or Decision(False, why), to "
            "ToolConversation, run_chat_with_tools or export_tools; or open the conversation in a ledger, where it "
            "waits for approval.",
            call.name,
        )
    return Decision(False, "no one was available to approve it")


async def decide_later(call: ToolCall) -> Decision | None:
    """Leave the decision to somebody else: the turn ends waiting, and resumes once the call is approved or denied."""
    return None


@dataclass(slots=True)
class Loop:
    """One run of the loop over one conversation. `new_messages` are the messages that it adds.

    `place` is its position in the conversation. If the machine has already started, the loop resumes it.
    """

    engine: Engine
    executor: ToolExecutor
    request: ToolCallRequest
    context: CallContext = field(default_factory=CallContext)
    decide: Decide = deny_all
    machine: Machine = field(default_factory=Machine)
    new_messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    reply: Reply = field(default_factory=Reply)
    journal: Journal = field(default_factory=NoJournal)
    place: str = "0"
    drains_before_save: bool = False
    """Whether the reader must have taken all events before a state is saved: then no state is ahead of the events."""
    hooks: tuple[Hook, ...] = ()
    client_tools: tuple[ToolDefinition, ...] = ()
    """Tools that are offered beside the executor's, and whose calls the caller runs: the turn ends with them."""
    on_usage: Callable[[str, ToolUsage], None] | None = None
    """Called after each reply to which tools were offered, with the model and the tools that were called."""
    usage: Usage | None = None
    """How many tokens the replies took, together."""
    receipts: dict[str, Receipt] = field(default_factory=dict[str, Receipt])
    """The receipts of the calls, by their ids."""
    limit_notice: str = ""
    """The limit that ended the loop, if one did."""
    _events: asyncio.Queue[LoopEvent] = field(default_factory=asyncio.Queue[LoopEvent])
    _has_changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there are new events, or the driver has ended."""
    _is_taken: bool = False
    """Whether the reader still handles an event."""
    _driver: asyncio.Task[None] | None = None
    _tasks: set[asyncio.Task[list[Step]]] = field(default_factory=set[asyncio.Task[list[Step]]])
    _hook_error: HookError | None = None
    """Of a hook that failed after a call: the turn ends with it when the other calls of the round have ended."""

    async def stream(self) -> AsyncGenerator[LoopEvent]:
        """Run the loop and yield its events. Closing the generator cancels what is in progress."""
        try:
            while (event := await self.next_event()) is not None:
                yield event
        finally:
            await self.stop()

    async def next_event(self) -> LoopEvent | None:
        """Return the next event; None after the last. The first call starts the loop, and `stop` must follow.

        A caller that is an async generator itself uses this instead of `stream`: each nested generator costs every
        event once more.
        """
        if self._driver is None:
            self.machine.policy = self.executor.policy
            self._driver = asyncio.ensure_future(self._drive())
            self._driver.add_done_callback(lambda _: self._has_changed.set())
        if self._is_taken:
            self._is_taken = False
            self._events.task_done()
        while self._events.empty():
            if self._driver.done():
                self._driver.result()
                return None
            self._has_changed.clear()
            await self._has_changed.wait()
        self._is_taken = True
        return self._events.get_nowait()

    async def stop(self) -> None:
        """Cancel what is in progress and wait until it has ended."""
        tasks: list[asyncio.Task[Any]] = [*self._tasks, *((self._driver,) if self._driver else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _emit(self, event: LoopEvent) -> None:
        self._events.put_nowait(event)
        self._has_changed.set()

    def snapshot(self) -> LoopState:
        """Return everything that another process needs to continue."""
        data = {
            "place": self.place,
            "machine": self.machine.as_dict(),
            "usage": usage_as_list(self.usage),
            "receipts": {id: receipt.as_dict() for id, receipt in self.receipts.items()},
        }
        return LoopState(data, tuple(self.new_messages))

    async def _drive(self) -> None:
        started = time.monotonic() - self.machine.usage.seconds
        steps = self.machine.resume()
        while True:
            self._append_results(steps)
            # There is no await between the change of the machine and this, so the messages and the machine agree.
            state = self.snapshot()
            if self.drains_before_save:
                await self._events.join()
            await self.journal.save_state(state)
            if self._hook_error is not None and not self.machine.running:
                raise self._hook_error
            self._start_tasks(steps)
            if not self._tasks:
                self._emit(LoopEnded(self.machine.state, self.limit_notice, self._callers_calls()))
                return
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self.machine.set_elapsed(time.monotonic() - started)
            self._tasks -= done
            steps = [step for task in done for step in task.result()]

    def _callers_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last round that the caller runs. They are in the messages, also after a takeover."""
        ids = self.machine.callers_calls
        calls = next((one.tool_calls for one in reversed(self.new_messages) if one.tool_calls), ()) if ids else ()
        return tuple(replace(call, receipt=self.receipts.get(call.id)) for call in calls if call.id in ids)

    def _append_results(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, AppendResults):
                results = [self.executor.result_of(call, outcome, hint) for call, outcome, hint in step.results]
                self.new_messages.append(ChatMessage(Role.TOOL, tuple(results)))

    def _start_tasks(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case AskModel():
                    self._start_task(self._ask_model(step))
                case RunCall(call):
                    self._start_task(self._run_call(call))
                case RequestApproval(call):
                    self._start_task(self._request_approval(call))
                case AppendResults() | EndLoop():
                    pass

    def _start_task(self, work: Awaitable[list[Step]]) -> None:
        self._tasks.add(asyncio.ensure_future(work))

    async def _ask_model(self, step: AskModel) -> list[Step]:
        if step.notice:
            self.limit_notice = step.notice
            self.new_messages.append(ChatMessage.user(f"{step.notice} Answer now with what you have."))
        started = time.monotonic()
        hooks, context = self._hook_runner, self._hook_context(is_last=step.is_last)
        answer = await ModelRound(self.engine, hooks, self._emit).ask(context.request, context)
        reply, request = answer.reply, answer.request
        cost = ReplyCost.of(reply, time.monotonic() - started)
        # Recorded before the machine moves: after that its state must be saved without another await in between.
        place, model = f"{self.place}.{self.machine.usage.rounds + 1}", request.model or self.engine.traits.name
        usage = tool_usage_of(request, reply)
        await self.journal.record_reply(place, model, usage, cost)
        if usage is not None and self.on_usage is not None:
            self.on_usage(model, usage)
        hooked, refusals = (reply, {}) if step.is_last else await self._hook_calls(reply, answer.refusal)
        self.reply = reply
        self.usage = add_usage(self.usage, reply.usage)
        self.receipts |= {call.id: call.receipt for call in reply.calls if call.receipt is not None}
        self.new_messages += [*answer.earlier, *reply.as_messages()]
        for call in reply.calls:
            if call.id in refusals:
                self._emit(ToolFinished(self.executor.result_of(call, refusals[call.id])))
        needs_approval = frozenset(call.id for call in hooked.calls if self._needs_approval(call))
        names = {tool.name for tool in self.client_tools}
        handed_out = frozenset(call.id for call in hooked.calls if call.name in names)
        return self.machine.accept_reply(hooked, needs_approval, refusals, handed_out)

    async def _hook_calls(self, reply: Reply, refusal: str) -> tuple[Reply, dict[str, Outcome]]:
        """Return the reply with the arguments that will run, and what the model reads of the calls that will not.

        Hooks see only valid calls. With a `refusal` none of the calls will run.
        """
        parts: list[ReplyPart] = []
        refusals: dict[str, Outcome] = {}
        for part in reply.parts if self.hooks else ():
            answer: ReplyPart | Answered = part
            if isinstance(part, ToolCall) and refusal:
                answer = Answered(refusal, is_error=True, code=REFUSED)
            elif isinstance(part, ToolCall) and self._fault_of(part) is None:
                context = self._hook_context(repeats=self.machine.usage.repeats_of(part))
                answer = await self._hook_runner.before_call(part, context, self._fault_of)
            if isinstance(answer, Answered) and isinstance(part, ToolCall):
                refusals[part.id] = answer
            parts.append(part if isinstance(answer, Answered) else answer)
        return (replace(reply, parts=tuple(parts)) if self.hooks else reply), refusals

    def _fault_of(self, call: ToolCall) -> Outcome | None:
        return self.executor.fault_of(call, self.context)

    @property
    def _hook_runner(self) -> HookRunner:
        return HookRunner(self.hooks, self.executor.per_tool_timeout_seconds)

    def _hook_context(self, *, is_last: bool = False, repeats: int = 0) -> HookContext:
        request = replace(
            self.request,
            messages=(*self.request.messages, *self.new_messages),
            tools=(*self.executor.definitions, *self.client_tools),
            tool_choice=ToolChoice.none() if is_last else self.request.tool_choice,
        )
        return HookContext(request=request, caller=self.context, repeats=repeats)

    def _needs_approval(self, call: ToolCall) -> bool:
        """Whether to ask a person. Not about a call that may not run: the model reads why, and can correct itself."""
        return self.executor.requires_confirmation(call) and self._fault_of(call) is None

    async def _run_call(self, call: ToolCall) -> list[Step]:
        self._emit(ToolStarted(call))

        loop = asyncio.get_running_loop()

        def report_progress(progress: Progress) -> None:
            # The tool may run in a thread.
            loop.call_soon_threadsafe(self._emit, ToolProgressed(call.id, progress))

        place = self._place_of(call)
        call_id = self.journal.idempotency_key(place, call)
        context = replace(self.context, call_id=call_id, on_progress=report_progress)
        # A recorded outcome counts even if the tool no longer exists.
        outcome = await self.journal.find_outcome(place) or await self._run_new_call(call, place, context)
        # What the tool reported before its end is emitted in the next turn of the event loop.
        await asyncio.sleep(0)
        self._emit(ToolFinished(self.executor.result_of(call, outcome)))
        return self.machine.accept_outcome(call.id, outcome)

    async def _run_new_call(self, call: ToolCall, place: str, context: CallContext) -> Outcome:
        fault, entry = self.executor.fault_of(call, context), self._entry(call, place)
        if fault is None and entry is not None:
            return await self.journal.run(entry, lambda task: self._run_effect(call, replace(context, task=task)))
        outcome = fault or NotDelivered(_TOOL_REMOVED)
        return await self.journal.refuse(place, str(self.executor.result_of(call, outcome).content)) or outcome

    async def _run_effect(self, call: ToolCall, context: CallContext) -> Outcome:
        """Run a call and the hooks after it: what they make of its result is what the journal records."""
        outcome = await self.executor.run_valid(call, context)
        if not self.hooks:
            return outcome
        try:
            return await self._hook_runner.after_call(call, outcome, self._hook_context())
        except HookError as error:
            # The call has run: that is recorded before the turn fails.
            self._hook_error = error
            return withheld_outcome(error)

    async def _request_approval(self, call: ToolCall) -> list[Step]:
        place = self._place_of(call)
        if await self.journal.find_outcome(place) is not None:
            # It was approved and run before. The machine hands it out again, and `_run_call` finds the outcome.
            return self.machine.approve(call.id)
        entry = self._entry(call, place)
        if entry is None:
            return self._deny(call, _TOOL_REMOVED)
        fault = self._fault_of(call)
        if fault is not None:
            # It was valid when the model wrote it: since then the tool or the caller's rights have changed.
            await self.journal.refuse(place, str(self.executor.result_of(call, fault).content))
            return self._refuse(call, fault)
        request = await self.journal.request_approval(entry)
        decision = request.decision
        if decision is None:
            decision = await self._decide(call, request.approval_id)
            if decision is not None:
                await self.journal.record_decision(request.approval_id, decision)
            else:
                decision = await self.journal.wait_for_decision(request.approval_id)
        if decision is None:
            return []
        if not decision.is_allowed:
            return self._deny(call, decision.why)
        return self.machine.approve(call.id, decision.arguments)

    async def _decide(self, call: ToolCall, approval: str) -> Decision | None:
        """Ask `decide`. If it does not answer at once, the request is recorded first, and anyone may decide."""
        deciding = asyncio.ensure_future(self.decide(call))
        try:
            await asyncio.wait({deciding}, timeout=_AT_ONCE)
            if not deciding.done() or deciding.exception() is not None or deciding.result() is None:
                await self.journal.flush()
            self._emit(ConfirmationRequired(call, approval))
            return await deciding
        finally:
            deciding.cancel()

    def _deny(self, call: ToolCall, why: str) -> list[Step]:
        return self._refuse(call, denial_outcome(why))

    def _refuse(self, call: ToolCall, outcome: Outcome) -> list[Step]:
        self._emit(ToolFinished(self.executor.result_of(call, outcome)))
        return self.machine.refuse(call.id, outcome)

    def _place_of(self, call: ToolCall) -> str:
        return f"{self.place}.{self.machine.place_of(call.id)}"

    def _entry(self, call: ToolCall, place: str) -> CallEntry | None:
        tool = self.executor.definition(call.name)
        if tool is None:
            return None
        terms = self.executor.approval_terms(call)
        return CallEntry(place, call, tool, self.executor.requires_confirmation(call), terms)
