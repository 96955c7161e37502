"""Hooks around calls and replies: what they may change, and what they can never turn off."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import (
    CallContext,
    ChatMessage,
    DefinitionError,
    Event,
    FerruleError,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallRequest,
    ToolConversation,
    ToolDefinition,
    ToolExecutor,
    ToolResult,
    tool,
)
from ferrule.core.call import How, Receipt
from ferrule.core.outcome import Answered, Unknown
from ferrule.core.request import ChoiceMode, ChoicePolicy
from ferrule.engines.fake import FakeEngine
from ferrule.errors import HookError
from ferrule.hooks import (
    ECHO,
    CallRefusal,
    Hook,
    HookContext,
    Retry,
    after_call,
    after_model,
    before_call,
    before_model,
)
from ferrule.run.approval_policy import ApprovalPolicy, ApprovalRule
from ferrule.run.events import ConfirmationRequired, LoopEvent, ToolFinished, ToolStarted
from ferrule.run.journal import Decision
from ferrule.run.ledger.ledger import ApprovalState, Ledger
from ferrule.run.loop import Loop
from ferrule.run.machine import State
from ferrule.sources.fake import FakeSource
from run.ledger_databases import Database

ADD = ToolDefinition.build("add").parameter("a", {"type": "integer"}, required=True).done()
POST = ToolDefinition.build("post").parameter("text", {"type": "string"}, required=True).side_effects().done()
REQUEST = ToolCallRequest(messages=(ChatMessage.user("go"),))
EXECUTOR_LIMITS = ("per_tool_timeout_seconds", "max_iterations", "approval_policy")


def source() -> FakeSource:
    return FakeSource((ADD, POST), lambda name, arguments, context: Answered({"name": name, **arguments}))


def call(name: str, id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall.of(name, arguments, id=id)


async def approve(call: ToolCall) -> Decision:
    return Decision(True)


class Run:
    """A turn with hooks: what was run, what was streamed, what the model was asked."""

    def __init__(self, hooks: Iterable[Hook], *replies: Reply, request: ToolCallRequest = REQUEST, **options: Any):
        self.source = source()
        self.engine = FakeEngine(replies)
        self.events: list[LoopEvent] = []
        limits = {name: options.pop(name) for name in EXECUTOR_LIMITS if name in options}
        self.executor = ToolExecutor(self.source, **limits)
        coroutine = self.executor.run_chat_with_tools(self.engine, request, self.events.append, hooks=hooks, **options)
        self.loop: Loop = asyncio.run(coroutine)

    @property
    def arguments(self) -> list[dict[str, Any]]:
        return [dict(arguments) for _, arguments, _ in self.source.calls]

    @property
    def results(self) -> list[Any]:
        return [result.content for message in self.loop.new_messages for result in message.results]

    @property
    def shown_text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))


def replacing(**arguments: Any) -> Hook:
    return Hook(name="replacing", before_call=lambda call, context: arguments)


# What a hook can never turn off.


def test_a_call_that_a_hook_changes_still_needs_approval_and_the_approval_shows_the_changed_arguments() -> None:
    shown: list[ToolCall] = []

    async def deny(call: ToolCall) -> Decision:
        shown.append(call)
        return Decision(False)

    run = Run([replacing(text="changed")], Reply.of(call("post", text="hi")), Reply.of("ok"), decide=deny)
    assert [one.arguments for one in shown] == [{"text": "changed"}]
    (event,) = [event for event in run.events if isinstance(event, ConfirmationRequired)]
    assert event.call.arguments == {"text": "changed"}
    assert run.source.calls == []


def test_arguments_from_a_hook_are_judged_by_the_approval_rules() -> None:
    small = ApprovalRule(
        name="short",
        tools=("post",),
        arguments={"properties": {"text": {"maxLength": 3}}, "required": ["text"]},
        approvers=0,
    )
    large = ApprovalRule(name="long", tools=("post",), arguments={"properties": {"text": {"minLength": 4}}})
    policy = ApprovalPolicy((small, large))
    replies = [Reply.of(call("post", text="hi")), Reply.of("ok")]
    assert Run([], *replies, approval_policy=policy).arguments == [{"text": "hi"}]
    assert Run([replacing(text="much longer")], *replies, approval_policy=policy).arguments == []


def test_a_drifted_call_still_needs_approval_after_a_hook_has_changed_it() -> None:
    receipt = Receipt(how=How.VALIDATED, engine="fake", path="", drifted="hermes -> fenced_json")
    drifted = replace(call("post", text="quoted"), receipt=receipt)
    rule = ApprovalRule(name="all", tools=("post",), approvers=0)
    policy = ApprovalPolicy((rule,))
    run = Run([replacing(text="mine")], Reply.of(drifted), Reply.of("ok"), approval_policy=policy)
    assert run.source.calls == []


def test_arguments_from_a_hook_that_do_not_fit_the_schema_fail_the_turn_and_nothing_runs() -> None:
    engine, tools = FakeEngine([Reply.of(call("add", a=1))]), source()
    conversation = ToolConversation(engine, tools, hooks=[replacing(a="one")])
    with pytest.raises(HookError, match=r"'replacing'.*arguments of add.*/a") as failure:
        asyncio.run(conversation.send_message("go"))
    assert tools.calls == []
    assert failure.value.hook == "replacing"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=2)))
def test_whatever_a_hook_puts_in_place_of_an_argument_only_what_fits_the_schema_runs(value: Any) -> None:
    try:
        run = Run([replacing(a=value)], Reply.of(call("add", a=1)), Reply.of("ok"))
    except HookError:
        assert not isinstance(value, int) or isinstance(value, bool)
    else:
        assert run.arguments == [{"a": value}]


def test_hooks_see_only_valid_calls() -> None:
    seen: list[str] = []

    @before_call
    def watch(call: ToolCall, context: HookContext) -> None:
        seen.append(call.function.arguments)

    run = Run(
        [watch], Reply.of(call("add", "c1", a="x"), call("nothing", "c2"), call("add", "c3", a=1)), Reply.of("ok")
    )
    assert seen == ['{"a": 1}']
    assert "invalid_arguments" in run.results[0]
    assert "unknown tool" in run.results[1]


def test_a_refused_call_does_not_run_is_not_approved_and_the_model_reads_why() -> None:
    @before_call
    def refuse(call: ToolCall, context: HookContext) -> CallRefusal:
        return CallRefusal("not on Sundays")

    run = Run([refuse], Reply.of(call("post", text="hi")), Reply.of("ok"), decide=approve)
    assert run.source.calls == []
    assert run.results == ["not on Sundays"]
    kinds = [type(event) for event in run.events]
    assert ToolFinished in kinds
    assert ConfirmationRequired not in kinds
    assert ToolStarted not in kinds


def test_a_person_has_the_last_word_on_arguments() -> None:
    async def edit(call: ToolCall) -> Decision:
        return Decision(True, arguments='{"text": "by a person"}')

    run = Run([replacing(text="by a hook")], Reply.of(call("post", text="hi")), Reply.of("ok"), decide=edit)
    assert run.arguments == [{"text": "by a person"}]


def test_a_hook_cannot_offer_a_tool_that_nothing_runs() -> None:
    extra = ToolDefinition.build("format_disk").done()
    hook = Hook(name="adder", before_model=lambda request, context: replace(request, tools=(*request.tools, extra)))
    with pytest.raises(HookError, match=r"'adder'.*format_disk"):
        Run([hook], Reply.of("never asked"))


def test_a_hook_can_take_tools_away_and_change_messages_and_parameters_of_a_request_only() -> None:
    def change(request: ToolCallRequest, context: HookContext) -> ToolCallRequest:
        return replace(request, tools=request.tools[:1], messages=(ChatMessage.user("stop"),), temperature=0.0)

    run = Run([before_model(change)], Reply.of("ok"))
    (asked,) = run.engine.requests
    assert [one.name for one in asked.tools] == ["add"]
    assert (asked.messages[-1].content, asked.temperature) == ("stop", 0.0)
    assert [message.role.value for message in run.loop.new_messages] == ["assistant"]


def test_at_a_limit_a_hook_cannot_allow_calls_again() -> None:
    hook = before_model(lambda request, context: replace(request, tool_choice="auto"))
    run = Run([hook], Reply.of(call("add", a=1)), Reply.of(call("add", "c2", a=2)), max_iterations=1)
    assert run.engine.requests[-1].tool_choice.mode is ChoiceMode.NONE
    assert len(run.source.calls) == 1


def test_what_is_not_known_stays_unknown_whatever_a_hook_returns() -> None:
    seen: list[ToolResult] = []

    @after_call
    def pretend(call: ToolCall, result: ToolResult, context: HookContext) -> ToolResult:
        seen.append(result)
        return ToolResult(call.id, call.name, "all is well")

    async def run() -> Loop:
        tools = FakeSource((ADD,), lambda name, arguments, context: Unknown("no answer"))
        engine = FakeEngine([Reply.of(call("add", a=1)), Reply.of("ok")])
        return await ToolExecutor(tools).run_chat_with_tools(engine, REQUEST, hooks=[pretend])

    loop = asyncio.run(run())
    assert "unknown" in str(loop.new_messages[1].results[0].content)
    assert seen == []


# A hook that fails.


def raise_error(*_: Any) -> Any:
    raise ValueError("the password is hunter2")


async def raise_error_later(*_: Any) -> Any:
    await asyncio.sleep(0)
    raise ValueError("the password is hunter2")


async def hang(*_: Any) -> Any:
    await asyncio.Event().wait()


def return_nonsense(*_: Any) -> Any:
    return 42


@pytest.mark.parametrize("point", ["before_call", "after_call", "before_model", "after_model"])
@pytest.mark.parametrize("function", [raise_error, raise_error_later, hang, return_nonsense])
def test_a_hook_that_raises_hangs_or_returns_nonsense_fails_the_turn_by_name(
    point: str, function: Callable[..., Any]
) -> None:
    hook = Hook(name="mine", **{point: function})  # type: ignore[arg-type]
    replies = [Reply.of(call("add", a=1)), Reply.of("ok")]
    with pytest.raises(FerruleError) as failure:
        Run([hook], *replies, per_tool_timeout_seconds=0.05 if function is hang else 30)
    error = failure.value
    assert isinstance(error, HookError)
    assert (error.code, error.status, error.retryable, error.hook) == ("hook_failed", 500, False, "mine")
    assert point in error.message
    assert point in error.hint
    assert "hunter2" not in error.message


def test_a_function_that_says_what_to_hold_and_raises_fails_the_turn_too() -> None:
    with pytest.raises(HookError, match=r"'mine'.*holds_text"):
        Run([Hook(name="mine", holds_text=raise_error)], Reply.of("hello"))


def test_if_a_hook_fails_on_a_result_the_model_never_reads_it_and_other_calls_of_the_round_finish() -> None:
    finished: list[str] = []

    @tool
    async def secret() -> str:
        return "hunter2"

    @tool
    async def slow() -> str:
        await asyncio.sleep(0.05)
        finished.append("slow")
        return "done"

    @after_call
    def redact(call: ToolCall, result: ToolResult, context: HookContext) -> None:
        if call.name == "secret":
            raise KeyError("oops")

    engine = FakeEngine([Reply.of(call("secret", "c1"), call("slow", "c2"))])
    conversation = ToolConversation(engine, [secret, slow], hooks=[redact])
    with pytest.raises(HookError, match="'redact'"):
        asyncio.run(conversation.send_message("go"))
    assert finished == ["slow"]
    results = [result.text for message in conversation.messages for result in message.results]
    assert "hunter2" not in str(results)
    assert "it ran" in results[0]
    assert results[1] == "done"


@pytest.mark.parametrize("point", ["before_call", "after_call", "before_model", "after_model"])
def test_closing_the_stream_cancels_a_hook(point: str) -> None:
    state: dict[str, bool] = {}

    async def run() -> None:
        entered = asyncio.Event()

        async def wait(*_: Any) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                state["cancelled"] = True

        engine = FakeEngine([Reply.of(call("add", a=1)), Reply.of("ok")])
        conversation = ToolConversation(engine, source(), hooks=[Hook(**{point: wait})])  # type: ignore[arg-type]
        turn = asyncio.ensure_future(conversation.send_message("go"))
        await entered.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(run())
    assert state == {"cancelled": True}


# Order, and both kinds of functions.


def test_hooks_run_in_their_order_and_each_sees_what_the_one_before_it_made() -> None:
    def adds(number: int) -> Hook:
        def more(call: ToolCall, context: HookContext) -> dict[str, Any]:
            return {"a": call.arguments["a"] * 10 + number}

        async def note(call: ToolCall, result: ToolResult, context: HookContext) -> ToolResult:
            return ToolResult(call.id, call.name, f"{result.text}+{number}")

        return Hook(name=f"adds{number}", before_call=more, after_call=note)

    run = Run([adds(1), adds(2), adds(3)], Reply.of(call("add", a=0)), Reply.of("ok"))
    assert run.arguments == [{"a": 123}]
    assert run.results == ['{"name": "add", "a": 123}+1+2+3']


def test_the_first_refusal_counts_and_later_hooks_do_not_run() -> None:
    refuse = before_call(lambda call, context: CallRefusal("no"))
    run = Run([refuse, Hook(before_call=raise_error)], Reply.of(call("add", a=1)), Reply.of("ok"))
    assert run.results == ["no"]


def test_a_synchronous_hook_runs_in_a_thread_and_an_asynchronous_one_in_the_loop() -> None:
    threads: dict[str, bool] = {}

    def plain(reply: Reply, context: HookContext) -> None:
        threads["plain"] = threading.current_thread() is threading.main_thread()

    async def asynchronous(reply: Reply, context: HookContext) -> None:
        threads["async"] = threading.current_thread() is threading.main_thread()

    Run([after_model(plain), after_model(asynchronous)], Reply.of("ok"))
    assert threads == {"plain": False, "async": True}


def test_what_is_no_hook_is_refused_when_the_conversation_is_made() -> None:
    for wrong in ([raise_error], 5, [None]):
        with pytest.raises(DefinitionError):
            ToolConversation(FakeEngine([]), source(), hooks=wrong)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="at least one"):
        Hook()
    with pytest.raises(DefinitionError, match="not a function"):
        Hook(before_call=5)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="hooks need tools that run automatically"):
        ToolConversation(FakeEngine([]), [ADD], hooks=[ECHO])


def test_engine_run_takes_hooks() -> None:
    engine, tools = FakeEngine([Reply.of(call("add", a=1)), Reply.of("ok")]), source()
    turn = engine.run_sync("go", tools=tools, hooks=[replacing(a=7)])
    assert turn.text == "ok"
    assert [dict(arguments) for _, arguments, _ in tools.calls] == [{"a": 7}]


def test_a_hook_knows_the_conversation_the_caller_and_the_tool() -> None:
    seen: list[HookContext] = []

    @before_call
    def look(call: ToolCall, context: HookContext) -> None:
        seen.append(context)

    Run([look], Reply.of(call("add", a=1)), Reply.of("ok"), context=CallContext(conversation="talk"))
    (context,) = seen
    assert context.request.messages == REQUEST.messages
    assert (context.caller.conversation, context.tool("add"), context.tool("gone")) == ("talk", ADD, None)


# Another try.


def retry_once(hint: str = "again") -> Hook:
    return after_model(lambda reply, context: Retry(hint))


def test_another_try_is_asked_for_once_in_each_round() -> None:
    run = Run([retry_once()], Reply.of("one"), Reply.of("two"), Reply.of("never"))
    assert run.loop.reply.text == "two"
    assert len(run.engine.requests) == 2
    assert [message.content for message in run.engine.requests[1].messages] == ["go", "one", "again"]


def test_text_that_was_shown_stays_in_the_conversation_with_the_hint_after_it() -> None:
    run = Run([retry_once()], Reply.of("one"), Reply.of("two"))
    assert run.shown_text == "onetwo"
    contents = [(message.role.value, message.content) for message in run.loop.new_messages]
    assert contents == [("assistant", "one"), ("user", "again"), ("assistant", "two")]


def test_text_that_was_held_is_dropped_and_leaves_no_trace() -> None:
    hook = Hook(after_model=retry_once().after_model, holds_text=lambda text, context: not context.is_retry)
    run = Run([hook], Reply.of("one"), Reply.of("two"))
    assert run.shown_text == "two"
    assert [message.content for message in run.loop.new_messages] == ["two"]
    # Neither does the model read it again: it would repeat it.
    assert [message.content for message in run.engine.requests[1].messages] == ["go", "again"]


def test_held_text_is_shown_in_order_as_soon_as_the_hook_lets_it_go() -> None:
    class Pieces(FakeEngine):
        async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            for piece in ("a", "b", "c", "d"):
                yield TextDelta(piece)

    seen: list[str] = []

    def holds(text: str, context: HookContext) -> bool:
        seen.append(text)
        return len(text) < 3

    async def run() -> list[str]:
        conversation = ToolConversation(Pieces([]), source(), hooks=[Hook(holds_text=holds)])
        return [event.text async for event in conversation.stream("go") if isinstance(event, TextDelta)]

    assert asyncio.run(run()) == ["a", "b", "c", "d"]
    assert seen == ["a", "ab", "abc"]


@given(st.lists(st.text(min_size=1, max_size=90), max_size=30), st.integers(0, 900))
def test_however_text_is_held_every_character_is_shown_once(pieces: list[str], length: int) -> None:
    class Pieces(FakeEngine):
        async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            for piece in pieces:
                yield TextDelta(piece)

    async def run() -> str:
        hook = Hook(holds_text=lambda text, context: len(text) < length)
        conversation = ToolConversation(Pieces([]), source(), hooks=[hook])
        events = [event async for event in conversation.stream("go")]
        return "".join(event.text for event in events if isinstance(event, TextDelta))

    assert asyncio.run(run()) == "".join(pieces)


def test_if_a_reply_with_calls_is_to_be_tried_again_no_call_runs_and_each_has_the_hint_as_its_result() -> None:
    hook = after_model(lambda reply, context: Retry("think first") if len(reply.calls) > 1 else None)
    replies = [Reply.of(call("add", "c1", a=1), call("post", "c2", text="x")), Reply.of(call("add", "c3", a=2))]
    run = Run([hook], *replies, Reply.of("ok"), decide=approve)
    assert run.arguments == [{"a": 2}]
    assert run.results[:2] == ["think first", "think first"]


def test_the_second_try_does_not_require_a_call_because_the_hint_follows_the_result() -> None:
    request = replace(REQUEST, tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP)
    hook = after_model(lambda reply, context: Retry("again") if not reply.calls else None)
    run = Run([hook], Reply.of(call("add", a=1)), Reply.of("one"), Reply.of("two"), request=request)
    assert [one.choice.mode for one in run.engine.requests] == [
        ChoiceMode.REQUIRED,
        ChoiceMode.AUTO,
        ChoiceMode.AUTO,
    ]


def test_a_result_that_a_hook_changes_is_what_the_model_reads_and_what_is_reported() -> None:
    hook = after_call(lambda call, result, context: ToolResult(call.id, call.name, {"short": True}))
    run = Run([hook], Reply.of(call("add", a=1)), Reply.of("ok"))
    assert run.results == [{"short": True}]
    assert [event.result.content for event in run.events if isinstance(event, ToolFinished)] == [{"short": True}]


# In a ledger.


class Counting:
    """A hook that replaces the text by another one each time it runs."""

    def __init__(self) -> None:
        self.count = 0

    def hook(self) -> Hook:
        return Hook(name="counting", before_call=self._replace, after_call=self._number)

    def _replace(self, call: ToolCall, context: HookContext) -> dict[str, Any]:
        self.count += 1
        return {"text": f"version {self.count}"}

    def _number(self, call: ToolCall, result: ToolResult, context: HookContext) -> ToolResult:
        return ToolResult(call.id, call.name, f"after {result.text}")


async def open_conversation(ledger: Ledger, tools: FakeSource, *replies: Reply, **options: Any) -> ToolConversation:
    return await ToolConversation.open(ledger, "c", FakeEngine(replies), tools, **options)


async def pending_approval(ledger: Ledger) -> Any:
    (approval,) = await ledger.approvals(ApprovalState.PENDING)
    return approval


def test_a_resumed_turn_runs_what_was_approved_and_does_not_run_the_hook_again(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[FakeSource, int, Any, str]:
        counting, tools = Counting(), source()
        talk = await open_conversation(ledger, tools, Reply.of(call("post", text="hi")), hooks=[counting.hook()])
        assert (await talk.send_message("post it")).state is State.WAITING
        await talk.close()
        approval = await pending_approval(ledger)
        await ledger.approve(approval.id, "bob", now=1)
        again = await open_conversation(ledger, tools, Reply.of("posted"), hooks=[counting.hook()])
        await again.resume()
        (record,) = await ledger.calls("c")
        return tools, counting.count, record.outcome, str(again.messages[-2].results[0].content)

    tools, count, outcome, result = database.run(scenario)
    assert [dict(arguments) for _, arguments, _ in tools.calls] == [{"text": "version 1"}]
    assert count == 1
    assert isinstance(outcome, Answered)
    # The record is what the model reads.
    assert outcome.content == result == 'after {"name": "post", "text": "version 1"}'


def test_after_a_crash_the_recorded_result_counts_and_no_hook_changes_it_again(database: Database) -> None:
    class Dead(FakeEngine):
        async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            if request.messages[-1].results:
                raise SystemError("the process died")
            async for event in super().stream_request(request):
                yield event

    async def scenario(ledger: Ledger) -> tuple[FakeSource, str]:
        counting, tools = Counting(), source()
        engine = Dead([Reply.of(call("post", text="hi"))])
        talk = await ToolConversation.open(ledger, "c", engine, tools, decide=approve, hooks=[counting.hook()])
        with pytest.raises(SystemError):
            await talk.send_message("post it")
        await talk.close()
        again = await open_conversation(ledger, tools, Reply.of("posted"), hooks=[counting.hook()])
        await again.resume()
        return tools, str(again.messages[-2].results[0].content)

    tools, result = database.run(scenario)
    assert len(tools.calls) == 1
    assert result == 'after {"name": "post", "text": "version 1"}'


def test_if_a_hook_fails_after_an_effect_the_effect_is_recorded_and_never_repeated(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[FakeSource, str]:
        tools = source()
        hooks = [Hook(name="redact", after_call=raise_error)]
        talk = await open_conversation(
            ledger, tools, Reply.of(call("post", text="hunter2")), decide=approve, hooks=hooks
        )
        with pytest.raises(HookError):
            await talk.send_message("post it")
        assert talk.is_unfinished
        await talk.close()
        again = await open_conversation(ledger, tools, Reply.of("I see"), decide=approve, hooks=hooks)
        await again.resume()
        return tools, str(again.messages[-2].results[0].content)

    tools, result = database.run(scenario)
    assert len(tools.calls) == 1
    assert "it ran" in result
    assert "hunter2" not in result
