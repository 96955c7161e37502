"""CrewAI: our model and tools in its crew, its tools in our conversation. Run where it is installed."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest

# Importing CrewAI warns, and warnings are errors here; only its own are let pass.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from crewai import Agent, Crew, Task
from crewai.events import crewai_event_bus
from crewai.events.types.llm_events import LLMCallCompletedEvent, LLMCallFailedEvent, LLMStreamChunkEvent
from crewai.tools import BaseTool
from crewai.tools import tool as crew_tool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from crewai.utilities.agent_utils import convert_tools_to_openai_schema
from crewai.utilities.exceptions.context_window_exceeding_exception import LLMContextLengthExceededError

from ferrule import (
    ChatMessage,
    ChoicePolicy,
    DefinitionError,
    EngineTimeoutError,
    Reasoning,
    Reply,
    Role,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from ferrule.engines.fake import FakeEngine
from ferrule.integrations.crewai import FerruleLLM, FerruleTool, alend, borrow, lend
from frameworks.borrowing import changes_of, dispatched, harbour, told_in_our_conversation
from frameworks.given import SEEN, Place, always, never, send, smol, weather
from frameworks.replies import PARIS, Failing, calls, each_bad_argument, each_reply_that_is_not_whole

# CrewAI reads fields of its own that it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:crewai")


def crew_of(llm: FerruleLLM, tools: list[BaseTool], asked: str = "What is the weather in Paris?") -> Crew:
    agent = Agent(role="clerk", goal="answer", backstory="brief", llm=llm, tools=tools, max_iter=3, max_retry_limit=0)
    return Crew(agents=[agent], tasks=[Task(description=asked, expected_output="a sentence", agent=agent)])


def llm_of(*replies: Reply, **options: Any) -> tuple[FerruleLLM, FakeEngine]:
    engine = FakeEngine(replies)
    return FerruleLLM(engine, **options), engine


def heard(*kinds: type[Any]) -> list[Any]:
    """What CrewAI's listeners hear of these kinds from now on."""
    events: list[Any] = []
    for kind in kinds:
        crewai_event_bus.on(kind)(lambda source, event: events.append(event))
    return events


def test_their_crew_calls_our_tool_with_our_model_and_reads_the_result() -> None:
    llm = FerruleLLM(smol(), tool_choice_policy="required_first_hop", max_tokens=48, temperature=0.0)
    events = heard(LLMCallCompletedEvent)
    done = crew_of(llm, lend([weather])).kickoff()
    assert len(SEEN) >= 1
    assert done.raw.strip()
    assert done.token_usage.completion_tokens > 0
    crewai_event_bus.flush()
    first = events[0].response
    assert first[0]["function"]["name"] == "weather"
    assert first[0]["ferrule"]["how"] == "grammar"


def test_our_conversation_calls_their_tool() -> None:
    tools = borrow([crew_tool("Harbour Lookup")(harbour)])
    results = told_in_our_conversation(tools, "Is the harbour of Genoa open?")
    assert len(SEEN) == 1
    assert [result.content for result in results] == ["open"]


def test_an_answer_can_be_held_to_a_type_by_our_grammar() -> None:
    answer = FerruleLLM(smol(), max_tokens=80).call("I was in Genoa.", response_model=Place)
    assert isinstance(answer, Place)


def test_a_loop_with_a_tool_goes_through_the_crew_as_meant() -> None:
    llm, engine = llm_of(
        Reply.of(Reasoning("hm"), "so", ToolCall.of("weather", '{"city": "Paris", "days": 2}', "abc")),
        Reply.of("clear"),
    )
    assert crew_of(llm, lend([weather])).kickoff().raw == "clear"
    assert SEEN == [("Paris", "2")]
    first, second = engine.requests
    assert [message.role for message in first.messages] == [Role.SYSTEM, Role.USER]
    assert first.tools == (weather.definition,)
    called = ToolCall.of("weather", '{"city": "Paris", "days": 2}', "abc")
    told = [message for message in second.messages if message.tool_calls or message.results]
    assert told == [
        ChatMessage(Role.ASSISTANT, (called,)),
        ChatMessage(Role.TOOL, (ToolResult("abc", "weather", '{"city": "Paris", "sky": "clear"}'),)),
    ]


def test_the_same_call_twice_really_happens_twice() -> None:
    same = calls("weather", '{"city": "Paris"}')
    llm, _ = llm_of(same, same, Reply.of("clear"))
    assert crew_of(llm, lend([weather])).kickoff().raw == "clear"
    assert len(SEEN) == 2


def test_every_argument_that_may_be_left_out_may_be_null_to_other_models() -> None:
    (tool,) = lend([weather])
    (offered,), _, _ = convert_tools_to_openai_schema([tool])
    parameters = offered["function"]["parameters"]
    assert parameters["required"] == ["city", "days"]
    assert {"type": "null"} in parameters["properties"]["days"]["anyOf"]
    assert tool.run(city="Paris", days=None) == '{"city": "Paris", "sky": "clear"}'
    assert SEEN == [("Paris", "1")]


@each_bad_argument
def test_bad_arguments_are_refused_in_our_words(arguments: str) -> None:
    (tool,) = lend([weather])
    given = tool.run(**ToolCall.of("weather", arguments).arguments)
    assert isinstance(given, ToolFailure)
    assert given.reason is ToolFailureReason.INVALID_INPUT
    assert given.message.startswith("invalid_arguments: /")
    assert not SEEN


def test_what_a_tool_says_went_wrong_is_a_failure_of_theirs_and_reaches_the_model() -> None:
    llm, engine = llm_of(calls("weather", '{"city": "Nowhere"}'), Reply.of("sorry"))
    assert crew_of(llm, lend([weather])).kickoff().raw == "sorry"
    results = [result for message in engine.requests[1].messages for result in message.results]
    assert [result.text for result in results] == ["no such city"]


def test_a_tool_that_changes_the_world_asks_for_leave() -> None:
    for decide, words in ((None, "denied: nobody was there to allow it"), (never, "denied: not on Sundays")):
        (tool,) = lend([send], decide) if decide else lend([send])
        given = tool.run(to="Ada")
        assert isinstance(given, ToolFailure)
        assert given.message == words
    (tool,) = lend([send], always)
    assert tool.run(to="Ada") == "sent to Ada"
    assert asyncio.run(tool.arun(to="Bob")) == "sent to Bob"
    assert [who for who, _ in SEEN] == ["Ada", "Bob"]


def test_tools_can_be_lent_in_a_loop() -> None:
    async def ran() -> Any:
        (tool,) = await alend([weather])
        return await tool.arun(city="Rome")

    assert asyncio.run(ran()) == '{"city": "Rome", "sky": "clear"}'


def test_history_and_settings_arrive_at_the_engine_as_meant() -> None:
    llm, engine = llm_of(
        Reply.of("yes"),
        temperature=0.5,
        max_tokens=9,
        top_p=0.9,
        seed=7,
        stop=["END"],
        top_k=3,
        parallel_tool_calls=False,
        tool_choice_policy="required_always",
    )
    (offered,), _, _ = convert_tools_to_openai_schema(lend([send]))
    call = ToolCall.of("send", '{"to": "Ada"}', "x")
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call.as_openai()]},
        {"role": "tool", "tool_call_id": "x", "name": "send", "content": "sent"},
    ]
    assert llm.call(messages, tools=[offered]) == "yes"
    (asked,) = engine.requests
    assert asked.messages == (
        ChatMessage.system("Be brief."),
        ChatMessage.user("go"),
        ChatMessage(Role.ASSISTANT, (call,)),
        ChatMessage.tool("x", "sent", "send"),
    )
    assert [tool.name for tool in asked.tools] == ["send"]
    assert (asked.temperature, asked.max_tokens, asked.top_p, asked.top_k, asked.seed) == (0.5, 9, 0.9, 3, 7)
    assert (asked.stop, asked.parallel_tool_calls) == (("END",), False)
    assert asked.tool_choice_policy is ChoicePolicy.REQUIRED_ALWAYS


@pytest.mark.parametrize(
    "chosen, meant",
    [
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        ("required", ToolChoice.required()),
        ({"type": "function", "function": {"name": "send"}}, ToolChoice.one("send")),
    ],
)
def test_each_choice_means_the_same_here_and_none_counts_without_tools(chosen: Any, meant: ToolChoice) -> None:
    llm, engine = llm_of(Reply.of("yes"), Reply.of("yes"), tool_choice=chosen)
    offered, _, _ = convert_tools_to_openai_schema(lend([send, weather]))
    llm.call("go", tools=offered)
    llm.call("go")
    assert [asked.tool_choice for asked in engine.requests] == [meant, ToolChoice.auto()]


def test_an_option_that_nobody_knows_is_refused() -> None:
    for options in ({"tool_choise": "auto"}, {"frequency_penalty": 1.0}):
        with pytest.raises(DefinitionError):
            FerruleLLM(FakeEngine([]), **options)


@each_reply_that_is_not_whole
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_not_whole_fails_the_crew_and_never_runs(reply: Reply, told: str, stream: bool) -> None:
    llm, _ = llm_of(reply, stream=stream)
    events = heard(LLMCallFailedEvent)
    with pytest.raises(RuntimeError, match=told):
        crew_of(llm, lend([weather])).kickoff()
    crewai_event_bus.flush()
    assert told in events[0].error
    assert not SEEN


def test_streamed_pieces_sum_to_the_call_and_the_text() -> None:
    llm, _ = llm_of(PARIS, stream=True)
    events = heard(LLMStreamChunkEvent)
    offered, _, _ = convert_tools_to_openai_schema(lend([weather]))
    (call,) = llm.call("go", tools=offered)
    crewai_event_bus.flush()
    assert "".join(event.chunk for event in events if event.tool_call is None) == "so"
    pieces = [event for event in events if event.tool_call is not None]
    assert "".join(event.chunk for event in pieces) == call["function"]["arguments"] == '{"city": "Paris", "days": 3}'
    assert pieces[-1].tool_call.function.arguments == call["function"]["arguments"]
    assert (llm.get_token_usage_summary().prompt_tokens, llm.get_token_usage_summary().completion_tokens) == (5, 6)


def test_the_asynchronous_way_and_given_functions_work_too() -> None:
    llm, _ = llm_of(Reply.of("hello"), calls("weather", '{"city": "Rome"}'))
    assert asyncio.run(llm.acall("go")) == "hello"
    offered, functions, _ = convert_tools_to_openai_schema(lend([weather]))
    assert llm.call("go", tools=offered, available_functions=functions) == '{"city": "Rome", "sky": "clear"}'


@pytest.mark.parametrize(
    "engine, kind",
    [
        (FakeEngine([]), RuntimeError),
        (Failing(EngineTimeoutError("too slow")), TimeoutError),
        (Failing(DefinitionError("too long", code="context_length_exceeded")), LLMContextLengthExceededError),
        (Failing(DefinitionError("not so")), ValueError),
    ],
)
def test_an_engine_that_fails_raises_what_the_framework_expects(engine: FakeEngine, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        FerruleLLM(engine).call("go")


def test_their_tools_of_every_kind_run_and_their_failures_are_told() -> None:
    class Slow(BaseTool):
        name: str = "Slow One"
        description: str = "Waits."

        def _run(self, seconds: int) -> Any:
            if seconds < 0:
                return ToolFailure(message="time runs forward", code="past")
            raise RuntimeError("secret")

        async def _arun(self, seconds: int) -> Any:
            return Place(name="here") if seconds else self._run(-1)

    @crew_tool
    async def quick(word: str, times: int = 2) -> str:
        """Says a word."""
        return word * times

    @crew_tool
    def broken() -> str:
        """Breaks."""
        raise RuntimeError("secret")

    tools = borrow([Slow(), quick, broken], side_effects=["broken"])
    assert changes_of(tools) == {"slow_one": False, "quick": False, "broken": True}
    asked = [("slow_one", {"seconds": 1}), ("slow_one", {"seconds": 0}), ("quick", {"word": "a"}), ("broken", {})]
    results = dispatched(tools, *asked, has_leave=True)
    assert [result.content for result in results] == [
        {"name": "here"},
        "time runs forward (code: past)",
        "aa",
        "the tool failed (RuntimeError)",
    ]


def test_a_lent_tool_is_known_by_its_definition() -> None:
    (tool,) = lend([send])
    assert isinstance(tool, FerruleTool)
    assert tool.definition == send.definition
