"""The Agents SDK: Ferrule's model and tools in an agent, and its tools in a conversation. Run where it is installed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    ModelBehaviorError,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunResult,
    ToolOutputImage,
    UserError,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.items import ToolCallItem, ToolCallOutputItem
from agents.retry import ModelRetryAdviceRequest

from ferrule import (
    ChatMessage,
    ChoicePolicy,
    DefinitionError,
    EngineUnavailableError,
    FinishReason,
    Reply,
    Role,
    Text,
    ToolChoice,
    ToolExecutor,
    ToolResult,
)
from ferrule.engines.fake import FakeEngine
from ferrule.integrations.openai_agents import (
    FerruleModel,
    FerruleProvider,
    export_tools,
    export_tools_async,
    import_tools,
)
from ferrule.sources.functions import Functions
from frameworks.borrowing import dispatch_calls, harbour, results_from_conversation, side_effects_of
from frameworks.given import CALLS, Place, always, never, send, smol, weather
from frameworks.replies import LET_ME_SEE, PARIS, calls, each_bad_argument, each_incomplete_reply


def agent_of(*replies: Reply, **options: Any) -> tuple[Agent[Any], FakeEngine]:
    engine = FakeEngine(replies)
    return Agent(name="tester", model=FerruleModel(engine), **options), engine


def run(agent: Agent[Any], value: Any = "go", **options: Any) -> RunResult:
    return asyncio.run(Runner.run(agent, value, max_turns=4, **options))


async def stream(agent: Agent[Any], value: str = "go") -> tuple[list[Any], Any]:
    running = Runner.run_streamed(agent, value, max_turns=4)
    events = [event async for event in running.stream_events()]
    return events, running.final_output


def outputs_in(result: RunResult) -> list[Any]:
    return [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]


def last_result(engine: FakeEngine) -> str:
    """The last result that the model sees."""
    return engine.requests[-1].messages[-1].results[0].text


REQUIRED = ModelSettings(tool_choice="required", max_tokens=48, temperature=0.0)
"""The SDK itself resets the choice to auto after a tool was used."""


def test_their_agent_calls_our_tool_with_our_model_and_reads_the_result() -> None:
    agent = Agent(name="tester", model=FerruleModel(smol()), tools=export_tools([weather]), model_settings=REQUIRED)
    agent.tool_use_behavior = "stop_on_first_tool"
    done = run(agent, "What is the weather in Paris?")
    assert len(CALLS) == 1
    assert done.final_output == f'{{"city": "{CALLS[0][0]}", "sky": "clear"}}'
    (call,) = [item.raw_item for item in done.new_items if isinstance(item, ToolCallItem)]
    assert call.provider_data["receipt"]["how"] == "grammar"
    usage = done.raw_responses[0].usage
    assert min(usage.input_tokens, usage.output_tokens, usage.requests) > 0


def test_the_same_as_a_stream_with_an_answer_after_the_call() -> None:
    settings = ModelSettings(max_tokens=32, extra_args={"tool_choice_policy": "required_first_hop", "seed": 1})

    async def ran() -> tuple[list[Any], Any]:
        model, tools = FerruleModel(smol()), await export_tools_async([weather])
        return await stream(Agent(name="tester", model=model, tools=tools, model_settings=settings), "Rome's weather?")

    events, answer = asyncio.run(ran())
    assert len(CALLS) >= 1
    assert answer.strip()
    kinds = [event.data.type for event in events if event.type == "raw_response_event"]
    # The whole call at once: nothing of it comes before it was validated.
    assert kinds.count("response.function_call_arguments.delta") == len(CALLS)


def test_our_conversation_calls_their_tool() -> None:
    results = results_from_conversation(import_tools([function_tool(harbour)]), "Is the harbour of Genoa open?")
    assert len(CALLS) == 1
    assert [result.content for result in results] == ["open"]


def test_the_answer_can_be_held_to_a_type_by_our_grammar() -> None:
    agent = Agent(name="tester", model=FerruleModel(smol()), output_type=Place)
    agent.model_settings = ModelSettings(max_tokens=80)
    assert isinstance(run(agent, "I was in Genoa.").final_output, Place)


@each_bad_argument
def test_invalid_arguments_are_refused(arguments: str) -> None:
    agent, engine = agent_of(calls("weather", arguments), Reply.of("sorry"), tools=export_tools([weather]))
    assert run(agent).final_output == "sorry"
    assert last_result(engine).startswith("Error: invalid_arguments: /")
    assert not CALLS


def test_what_a_tool_says_went_wrong_reaches_the_model() -> None:
    agent, engine = agent_of(calls("weather", '{"city": "Nowhere"}'), Reply.of("sorry"), tools=export_tools([weather]))
    run(agent)
    assert last_result(engine) == "Error: no such city"


def test_a_tool_with_side_effects_interrupts_the_run_until_it_is_approved() -> None:
    agent, _ = agent_of(calls("send", '{"to": "Ada"}', "abc"), Reply.of("done"), tools=export_tools([send]))
    first = run(agent)
    (interruption,) = first.interruptions
    assert (interruption.name, CALLS) == ("send", [])
    state = first.to_state()
    state.approve(interruption)
    assert run(agent, state).final_output == "done"
    assert CALLS == [("Ada", "abc")]


def test_the_model_sees_a_rejection_and_nothing_runs() -> None:
    agent, engine = agent_of(calls("send", '{"to": "Ada"}', "abc"), Reply.of("as you wish"), tools=export_tools([send]))
    first = run(agent)
    state = first.to_state()
    state.reject(first.interruptions[0], rejection_message="not today")
    assert run(agent, state).final_output == "as you wish"
    assert (last_result(engine), CALLS) == ("not today", [])


def test_nobody_is_asked_to_approve_arguments_that_do_not_fit() -> None:
    agent, engine = agent_of(calls("send", '{"who": "Ada"}'), Reply.of("sorry"), tools=export_tools([send]))
    assert run(agent).final_output == "sorry"
    assert last_result(engine).startswith("Error: invalid_arguments")


def test_a_decision_of_ours_is_asked_where_one_is_given() -> None:
    for decide, words in ((never, "Error: denied: not on Sundays"), (always, "sent to Ada")):
        agent, engine = agent_of(
            calls("send", '{"to": "Ada"}', "abc"), Reply.of("so"), tools=export_tools([send], decide)
        )
        assert run(agent).final_output == "so"
        assert last_result(engine) == words
    assert CALLS == [("Ada", "abc")]


def test_an_executor_that_asks_nobody_interrupts_nothing() -> None:
    tools = export_tools(ToolExecutor(Functions([send]), confirms_side_effects=False))
    agent, _ = agent_of(calls("send", '{"to": "Ada"}'), Reply.of("done"), tools=tools)
    assert run(agent).final_output == "done"
    assert len(CALLS) == 1


def test_system_history_and_settings_arrive_at_the_engine_as_meant() -> None:
    agent, engine = agent_of(
        LET_ME_SEE,
        Reply.of("clear"),
        tools=export_tools([weather]),
        instructions="Be brief.",
        model_settings=ModelSettings(
            temperature=0.5,
            max_tokens=9,
            top_p=0.9,
            parallel_tool_calls=False,
            extra_args={"seed": 7, "top_k": 3, "stop": ["END"], "tool_choice_policy": "required_always"},
        ),
    )
    run(agent, "weather?")
    first, second = engine.requests
    assert first.messages == (ChatMessage.system("Be brief."), ChatMessage.user("weather?"))
    assert first.tools == (weather.definition,)
    assert (first.temperature, first.max_tokens, first.top_p, first.top_k, first.seed) == (0.5, 9, 0.9, 3, 7)
    assert (first.stop, first.parallel_tool_calls) == (("END",), False)
    assert first.tool_choice_policy is ChoicePolicy.REQUIRED_ALWAYS
    assert second.messages[2:] == (
        ChatMessage(Role.ASSISTANT, LET_ME_SEE.parts),
        ChatMessage(Role.TOOL, (ToolResult("a", "weather", '{"city": "Paris", "sky": "clear"}'),)),
    )


@pytest.mark.parametrize(
    "chosen, expected",
    [
        (None, ToolChoice.auto()),
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        ("required", ToolChoice.required()),
        ("send", ToolChoice.one("send")),
    ],
)
def test_each_choice_means_the_same_here(chosen: Any, expected: ToolChoice) -> None:
    agent, engine = agent_of(Reply.of("yes"), tools=export_tools([weather, send]))
    agent.model_settings = ModelSettings(tool_choice=chosen)
    run(agent)
    assert engine.requests[0].tool_choice == expected


def test_a_policy_of_ours_may_demand_the_first_call() -> None:
    engine = FakeEngine([Reply.of("yes")])
    run(
        Agent(
            name="a", model=FerruleModel(engine, tool_choice_policy="required_first_hop"), tools=export_tools([weather])
        )
    )
    assert engine.requests[0].choice == ToolChoice.required()


def test_a_handoff_is_a_tool_to_the_engine_and_its_call_goes_to_the_other_agent() -> None:
    other, _ = agent_of(Reply.of("bonjour"))
    other.name = "french"
    agent, engine = agent_of(calls("transfer_to_french", "{}"), handoffs=[handoff(other)])
    assert run(agent).final_output == "bonjour"
    assert [tool.name for tool in engine.requests[0].tools] == ["transfer_to_french"]


@each_incomplete_reply
def test_a_call_that_is_not_whole_ends_the_run_and_never_is_a_call(reply: Reply, expected: str) -> None:
    agent, _ = agent_of(reply, tools=export_tools([weather]))
    with pytest.raises(ModelBehaviorError, match=expected):
        run(agent)

    names: list[str] = []

    async def hear() -> None:
        running = Runner.run_streamed(agent_of(reply, tools=export_tools([weather]))[0], "go")
        async for event in running.stream_events():
            names.append(getattr(event, "name", ""))

    with pytest.raises(ModelBehaviorError, match=expected):
        asyncio.run(hear())
    assert names
    assert ("tool_called" in names, CALLS) == (False, [])


def test_streamed_pieces_sum_to_the_call_the_text_and_the_reasoning() -> None:
    agent, _ = agent_of(PARIS, Reply.of("done"), tools=export_tools([weather]))
    events, answer = asyncio.run(stream(agent))
    raw = [event.data for event in events if event.type == "raw_response_event"]
    pieces = [event.delta for event in raw if event.type == "response.function_call_arguments.delta"]
    assert "".join(pieces) == '{"city": "Paris", "days": 3}'
    first = next(event.response for event in raw if event.type == "response.completed")
    at_once = run(agent_of(PARIS, Reply.of("done"), tools=export_tools([weather]))[0])
    assert [item.model_dump() for item in first.output] == [
        item.model_dump() for item in at_once.raw_responses[0].output
    ]
    assert (first.usage.input_tokens, first.usage.output_tokens, answer) == (5, 6, "done")
    assert CALLS == [("Paris", "3")] * 2


def test_text_that_was_cut_off_is_handed_on() -> None:
    cut = Reply((Text("once upon"),), finish=FinishReason.LENGTH)
    assert run(agent_of(cut)[0]).final_output == "once upon"
    assert asyncio.run(stream(agent_of(cut)[0]))[1] == "once upon"


def test_two_calls_never_have_one_id() -> None:
    same = calls("weather", '{"city": "Paris"}', "call_1")
    agent, _ = agent_of(same, same, Reply.of("done"), tools=export_tools([weather]))
    assert run(agent).final_output == "done"
    assert len(CALLS) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [WebSearchTool()]},
        {"model_settings": ModelSettings(frequency_penalty=1.0)},
        {"model_settings": ModelSettings(tool_choice="nothing")},
    ],
)
def test_what_no_engine_does_is_the_users_error(options: dict[str, Any]) -> None:
    agent, engine = agent_of(Reply.of("no"), **options)
    with pytest.raises(UserError):
        run(agent)
    assert not engine.requests


def test_an_engine_that_fails_advises_the_runner_whether_to_try_again() -> None:
    request = ModelRetryAdviceRequest(error=EngineUnavailableError("busy"), attempt=1, stream=False)
    advice = FerruleModel(FakeEngine([])).get_retry_advice(request)
    assert advice is not None
    assert advice.suggested
    assert advice.normalized is not None
    assert advice.normalized.status_code == 503


def test_a_provider_makes_models_of_the_strings_that_pick_takes() -> None:
    provider = FerruleProvider(FakeEngine([Reply.of("default")]))
    answers = [
        run(Agent(name="a", model=model), run_config=RunConfig(model_provider=provider)).final_output
        for model in ("fake:hello", None)
    ]
    assert answers == ["hello", "default"]
    asyncio.run(provider.aclose())


def test_their_errors_context_and_outputs_come_over() -> None:
    @function_tool
    def plain(context: RunContextWrapper[str], number: int) -> Any:
        """Does one of several things."""
        if number == 1:
            raise ValueError("secret")
        return context.context if number == 2 else ToolOutputImage(image_url="data:,")

    @function_tool(failure_error_function=None)
    async def bare() -> str:
        """Fails."""
        raise RuntimeError("secret")

    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pays."""
        return "paid"

    tools = import_tools([plain, bare, pay], context="Ada")
    assert side_effects_of(tools) == {"plain": False, "bare": False, "pay": True}
    numbered = [("plain", {"number": number}) for number in (1, 2, 3)]
    failed, context, image, bare_failed, requests = dispatch_calls(tools, *numbered, ("bare", {}), ("pay", {}))
    assert (failed.text, failed.is_error) == ("An error occurred while running the tool. Please try again.", True)
    assert (context.content, context.is_error) == ("Ada", False)
    assert image.text == "the tool returned a file; only text and JSON are supported"
    assert bare_failed.text == "the tool failed (RuntimeError)"
    assert requests.text.startswith("requires_confirmation")


def test_tools_that_need_their_agent_or_openai_are_refused() -> None:
    async def nothing(context: Any, arguments: str) -> str:
        return ""

    gated = FunctionTool("gated", "", {"type": "object"}, nothing, False, is_enabled=lambda context, agent: True)
    for tool in (WebSearchTool(), gated):
        with pytest.raises(DefinitionError):
            import_tools([tool])
