"""Pydantic AI: Ferrule's model and tools in an agent, and its tools in a conversation. Run where it is installed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, NativeOutput, RunContext, Tool
from pydantic_ai import messages as said
from pydantic_ai.exceptions import (
    IncompleteToolCall,
    ModelContextWindowExceededError,
    ModelServerError,
    ToolFailed,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings, ToolOrOutput
from pydantic_ai.tools import ToolDefinition as TheirDefinition
from pydantic_ai.tools import ToolDenied
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset

from ferrule import (
    ChatMessage,
    ChoiceMode,
    DefinitionError,
    Engine,
    Reasoning,
    Reply,
    Role,
    ToolChoice,
    ToolExecutor,
    ToolResult,
)
from ferrule.engines.fake import FakeEngine
from ferrule.integrations.pydantic_ai import FerruleModel, export_tools, export_tools_async, import_tools
from ferrule.sources.functions import Functions
from frameworks.borrowing import dispatch_calls, harbour, results_from_conversation, side_effects_of
from frameworks.given import CALLS, Place, always, never, send, smol, weather
from frameworks.replies import LET_ME_SEE, PARIS, Failing, calls, each_bad_argument, rejected_reply, truncated_reply


def agent_of(*replies: Reply, **options: Any) -> tuple[Agent[object, Any], FakeEngine]:
    engine = FakeEngine(replies)
    return Agent(FerruleModel(engine), **options), engine


def run(agent: Agent[Any, Any], text: str | None = None, **options: Any) -> AgentRunResult[Any]:
    """Run the agent. `run_sync` would leave an open event loop behind."""
    return asyncio.run(agent.run(text, **options))


def results_in(messages: list[said.ModelMessage]) -> list[said.ToolReturnPart[Any]]:
    return [part for message in messages for part in message.parts if isinstance(part, said.ToolReturnPart)]


def required_until_a_result(context: RunContext[Any]) -> ModelSettings:
    has_result = bool(results_in(context.messages))
    return ModelSettings(tool_choice="none" if has_result else "required", max_tokens=48, temperature=0.0)


def test_their_agent_calls_our_tool_with_our_model_and_reads_the_result() -> None:
    agent = Agent(FerruleModel(smol()), toolsets=export_tools([weather]), model_settings=required_until_a_result)
    done = run(agent, "What is the weather in Paris?")
    assert len(CALLS) == 1
    (result,) = results_in(done.all_messages())
    assert result.content == {"city": CALLS[0][0], "sky": "clear"}
    assert done.output.strip()
    response = next(message for message in done.all_messages() if isinstance(message, said.ModelResponse))
    (call,) = response.tool_calls
    assert (call.provider_details or {})["receipt"]["how"] == "grammar"
    assert min(response.usage.input_tokens, response.usage.output_tokens) > 0


def test_the_same_as_a_stream() -> None:
    async def streamed() -> list[Any]:
        agent = Agent(
            FerruleModel(smol()), toolsets=await export_tools_async([weather]), model_settings=required_until_a_result
        )
        async with agent.run_stream_events("What is the weather in Rome?") as events:
            return [event async for event in events]

    events = asyncio.run(streamed())
    assert len(CALLS) == 1
    pieces = [
        event.delta.args_delta
        for event in events
        if isinstance(event, said.PartDeltaEvent) and isinstance(event.delta, said.ToolCallPartDelta)
    ]
    # The whole call at once: nothing of it comes before it was validated.
    assert len([piece for piece in pieces if piece]) == 1


def test_our_conversation_calls_their_tool() -> None:
    results = results_from_conversation(import_tools([harbour]), "Is the harbour of Genoa open?")
    assert len(CALLS) == 1
    assert [result.content for result in results] == ["open"]


def test_the_answer_can_be_held_to_a_type_by_our_grammar() -> None:
    agent = Agent(FerruleModel(smol()), output_type=NativeOutput(Place), model_settings={"max_tokens": 80})
    assert isinstance(run(agent, "I was in Genoa.").output, Place)


def test_arguments_go_over_unchanged_and_the_call_keeps_its_id() -> None:
    agent, _ = agent_of(
        calls("send", '{"to": "Ada"}', "abc"), Reply.of("done"), toolsets=export_tools([weather, send], always)
    )
    assert run(agent, "send it").output == "done"
    assert CALLS == [("Ada", "abc")]


@each_bad_argument
def test_invalid_arguments_are_refused_and_may_be_corrected_once(arguments: str) -> None:
    mended = calls("weather", '{"city": "Paris"}', "call_2")
    agent, engine = agent_of(calls("weather", arguments), mended, Reply.of("clear"), toolsets=export_tools([weather]))
    assert run(agent, "weather?").output == "clear"
    assert CALLS == [("Paris", "1")]
    message = engine.requests[1].messages[-1].results[0]
    assert message.is_error
    assert message.text.startswith("invalid_arguments: /")


def test_arguments_that_stay_invalid_end_the_run() -> None:
    agent, _ = agent_of(*[calls("weather", "{}")] * 2, toolsets=export_tools([weather]))
    with pytest.raises(UnexpectedModelBehavior, match="exceeded max retries"):
        run(agent, "weather?")
    assert not CALLS


def test_what_a_tool_says_went_wrong_reaches_the_model_as_a_failed_result() -> None:
    agent, engine = agent_of(
        calls("weather", '{"city": "Nowhere"}'), Reply.of("sorry"), toolsets=export_tools([weather])
    )
    done = run(agent, "weather?")
    assert [part.outcome for part in results_in(done.all_messages())] == ["failed"]
    assert engine.requests[1].messages[-1].results == (ToolResult("call_1", "weather", "no such city", is_error=True),)


def test_a_tool_with_side_effects_waits_for_the_frameworks_approval() -> None:
    agent, _ = agent_of(
        calls("send", '{"to": "Ada"}', "abc"),
        Reply.of("done"),
        toolsets=export_tools([send]),
        output_type=[str, DeferredToolRequests],
    )
    first = run(agent, "send it")
    assert isinstance(first.output, DeferredToolRequests)
    assert [call.tool_call_id for call in first.output.approvals] == ["abc"]
    assert not CALLS
    approved = DeferredToolResults(approvals={"abc": True})
    assert run(agent, message_history=first.all_messages(), deferred_tool_results=approved).output == "done"
    assert CALLS == [("Ada", "abc")]


def test_a_denial_through_the_framework_is_reported_and_nothing_runs() -> None:
    replies, kinds = (calls("send", '{"to": "Ada"}', "abc"), Reply.of("as you wish")), [str, DeferredToolRequests]
    agent, engine = agent_of(*replies, toolsets=export_tools([send]), output_type=kinds)
    first = run(agent, "send it")
    denied = DeferredToolResults(approvals={"abc": ToolDenied("not today")})
    assert run(agent, message_history=first.all_messages(), deferred_tool_results=denied).output == "as you wish"
    assert not CALLS
    assert "not today" in engine.requests[1].messages[-1].results[0].text


def test_nobody_is_asked_to_approve_arguments_that_do_not_fit() -> None:
    kinds = [str, DeferredToolRequests]
    agent, _ = agent_of(calls("send", "{}"), Reply.of("sorry"), toolsets=export_tools([send]), output_type=kinds)
    assert run(agent, "send it").output == "sorry"


def test_a_decision_of_ours_is_asked_where_one_is_given() -> None:
    agent, engine = agent_of(calls("send", '{"to": "Ada"}'), Reply.of("sorry"), toolsets=export_tools([send], never))
    assert run(agent, "send it").output == "sorry"
    assert not CALLS
    assert engine.requests[1].messages[-1].results[0].text == "denied: not on Sundays"


def test_an_executor_that_asks_nobody_defers_nothing() -> None:
    tools = export_tools(ToolExecutor(Functions([send]), confirms_side_effects=False))
    agent, _ = agent_of(calls("send", '{"to": "Ada"}'), Reply.of("done"), toolsets=tools)
    assert run(agent, "send it").output == "done"
    assert len(CALLS) == 1


def test_system_history_and_settings_arrive_at_the_engine_as_meant() -> None:
    agent, engine = agent_of(
        LET_ME_SEE,
        Reply.of("clear"),
        toolsets=export_tools([weather]),
        system_prompt="Be brief.",
        instructions="Use tools.",
    )
    settings = ModelSettings(
        temperature=0.5, max_tokens=9, top_p=0.9, top_k=3, seed=7, stop_sequences=["END"], parallel_tool_calls=False
    )
    run(agent, "weather?", model_settings=settings)
    first, second = engine.requests
    system, user = first.messages
    # Between the two the framework explains its own tags.
    assert (system.content.startswith("Be brief."), system.content.endswith("Use tools.")) == (True, True)
    assert (system.role, user) == (Role.SYSTEM, ChatMessage.user("weather?"))
    assert first.tools == (weather.definition,)
    assert (first.temperature, first.max_tokens, first.top_p, first.top_k, first.seed) == (0.5, 9, 0.9, 3, 7)
    assert (first.stop, first.parallel_tool_calls, first.tool_choice) == (("END",), False, ToolChoice.auto())
    assert second.messages[2:] == (
        ChatMessage(Role.ASSISTANT, LET_ME_SEE.parts),
        ChatMessage(Role.TOOL, (ToolResult("a", "weather", '{"city":"Paris","sky":"clear"}'),)),
    )


def test_a_policy_of_ours_may_demand_the_first_call() -> None:
    engine = FakeEngine([Reply.of("yes")])
    run(Agent(FerruleModel(engine, tool_choice_policy="required_first_hop"), toolsets=export_tools([weather])), "go")
    assert engine.requests[0].choice == ToolChoice.required()


@pytest.mark.parametrize(
    "chosen, expected",
    [
        (None, ToolChoice.auto()),
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        ("required", ToolChoice.allowed(["weather", "send"], ChoiceMode.REQUIRED)),
        (["send"], ToolChoice.one("send")),
        (ToolOrOutput(function_tools=["weather"]), ToolChoice.allowed(["weather"])),
    ],
)
def test_each_choice_means_the_same_here(chosen: Any, expected: ToolChoice) -> None:
    engine = FakeEngine([Reply.of("yes")])
    offered = ModelRequestParameters(function_tools=[TheirDefinition(name=name) for name in ("weather", "send")])
    request = said.ModelRequest.user_text_prompt("go")
    asyncio.run(FerruleModel(engine).request([request], {"tool_choice": chosen}, offered))
    assert engine.requests[0].tool_choice == expected


def test_an_answer_that_must_be_a_tools_arguments_demands_that_call() -> None:
    agent, engine = agent_of(calls("final_result", '{"response": 4}'), output_type=int)
    assert run(agent, "2 + 2?").output == 4
    assert engine.requests[0].tool_choice == ToolChoice.required()


@pytest.mark.parametrize(
    "reply, kind", [(truncated_reply(), IncompleteToolCall), (rejected_reply(), UnexpectedModelBehavior)]
)
def test_a_call_that_is_not_whole_ends_the_run_and_never_runs(reply: Reply, kind: type[Exception]) -> None:
    agent, _ = agent_of(reply, reply, toolsets=export_tools([weather]))
    with pytest.raises(kind, match="weather"):
        run(agent, "weather?")

    async def streamed() -> None:
        async with agent.run_stream("weather?") as stream:
            await stream.get_output()

    with pytest.raises(kind, match="weather"):
        asyncio.run(streamed())
    assert not CALLS


def test_streamed_pieces_sum_to_the_call_the_text_and_the_reasoning() -> None:
    model = FerruleModel(FakeEngine([PARIS, PARIS]))
    request = said.ModelRequest.user_text_prompt("go")
    offered = ModelRequestParameters(function_tools=[TheirDefinition(name="weather")])

    async def both() -> tuple[said.ModelResponse, said.ModelResponse]:
        async with model.request_stream([request], None, offered) as stream:
            async for _ in stream:
                pass
        return stream.get(), await model.request([request], None, offered)

    streamed, at_once = asyncio.run(both())
    assert streamed.parts == at_once.parts
    assert streamed.usage == at_once.usage
    assert (streamed.finish_reason, streamed.state) == ("tool_call", "complete")
    assert streamed.provider_details == at_once.provider_details


def test_a_cancelled_stream_is_reported_as_interrupted() -> None:
    async def cancelled() -> said.ModelResponse:
        model = FerruleModel(FakeEngine([Reply.of("one", Reasoning("two"), "three")]))
        requests = [said.ModelRequest.user_text_prompt("go")]
        async with model.request_stream(requests, None, ModelRequestParameters()) as stream:
            async for _ in stream:
                await stream.cancel()
        return stream.get()

    assert asyncio.run(cancelled()).state == "interrupted"


@pytest.mark.parametrize(
    "engine, kind",
    [
        (FakeEngine([]), ModelServerError),
        (Failing(DefinitionError("too long", code="context_length_exceeded")), ModelContextWindowExceededError),
    ],
)
def test_an_engine_that_fails_raises_the_frameworks_error_of_its_kind(engine: Engine, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        run(Agent(FerruleModel(engine)), "hello")


def test_their_errors_come_to_our_model_in_their_words() -> None:
    def strict(number: int) -> str:
        """Fails in each way that the framework supports."""
        raise {1: ModelRetry("try two"), 2: ToolFailed("broken"), 3: RuntimeError("secret")}[number]

    results = dispatch_calls(import_tools([Tool(strict)]), *(("strict", {"number": number}) for number in (1, 2, 3)))
    assert [result.text for result in results] == ["try two", "broken", "the tool failed (RuntimeError)"]
    assert all(result.is_error for result in results)


def test_their_context_types_and_own_checks_work_as_in_their_agent() -> None:
    def known_harbour(context: RunContext[str], place: Place, hour: int) -> None:
        if place.name != "Genoa":
            raise ModelRetry("only Genoa is known")

    async def harbour(context: RunContext[str], place: Place, hour: int) -> Place:
        """Finds a harbour."""
        return Place(name=f"{place.name} for {context.deps}")

    tools = import_tools([Tool(harbour, args_validator=known_harbour)], deps="Ada")
    (definition,) = asyncio.run(tools.tools())
    assert definition.description == "Finds a harbour."
    places = ({"name": "Genoa"}, {"name": "Rome"}, {})
    good, unknown, bad = dispatch_calls(tools, *(("harbour", {"place": place, "hour": 9}) for place in places))
    assert good.content == {"name": "Genoa for Ada"}
    assert unknown.text == "only Genoa is known"
    assert bad.text.startswith("invalid_arguments: /place")


def test_imported_tools_that_need_approval_have_side_effects_and_external_ones_are_not_offered() -> None:
    def pay(amount: int) -> str:
        return f"paid {amount}"

    def look() -> str:
        return "seen"

    theirs = [FunctionToolset([pay, look], requires_approval=False), ExternalToolset([TheirDefinition(name="far")])]
    theirs[0].tools["pay"].requires_approval = True
    tools = import_tools(theirs, side_effects=["look"])
    assert side_effects_of(tools) == {"pay": True, "look": True}
    assert tools.notices == ("far is not offered: it is an external tool",)
    call = ("pay", {"amount": 3})
    (requests,), (paid,) = dispatch_calls(tools, call), dispatch_calls(tools, call, is_approved=True)
    assert requests.text.startswith("requires_confirmation")
    assert paid.content == "paid 3"
    with pytest.raises(DefinitionError):
        asyncio.run(import_tools([look], side_effects=["lok"]).tools())
