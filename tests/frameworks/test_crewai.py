"""CrewAI: Ferrule's model and tools in a crew, and its tools in a Ferrule conversation. Run where it is installed."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

import pytest

# Importing CrewAI warns, and warnings are errors here, so its own are ignored.
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
    CallContext,
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
from ferrule.core.outcome import Answered
from ferrule.engines.fake import FakeEngine
from ferrule.integrations.crewai import FerruleLLM, FerruleTool, export_tools, export_tools_async, import_tools
from frameworks.borrowing import dispatch_calls, harbour, results_from_conversation, side_effects_of
from frameworks.given import CALLS, Place, always, never, send, smol, weather
from frameworks.replies import PARIS, Failing, calls, each_bad_argument, each_incomplete_reply

# CrewAI reads its own deprecated fields.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:crewai")


def crew_of(llm: FerruleLLM, tools: list[BaseTool], question: str = "What is the weather in Paris?") -> Crew:
    agent = Agent(role="clerk", goal="answer", backstory="brief", llm=llm, tools=tools, max_iter=3, max_retry_limit=0)
    return Crew(agents=[agent], tasks=[Task(description=question, expected_output="a sentence", agent=agent)])


def llm_of(*replies: Reply, **options: Any) -> tuple[FerruleLLM, FakeEngine]:
    engine = FakeEngine(replies)
    return FerruleLLM(engine, **options), engine


def collect_events(*kinds: type[Any]) -> list[Any]:
    """Collect CrewAI's events of these kinds from now on."""
    events: list[Any] = []
    for kind in kinds:
        crewai_event_bus.on(kind)(lambda source, event: events.append(event))
    return events


def test_their_crew_calls_our_tool_with_our_model_and_reads_the_result() -> None:
    llm = FerruleLLM(smol(), tool_choice_policy="required_first_hop", max_tokens=48, temperature=0.0)
    events = collect_events(LLMCallCompletedEvent)
    done = crew_of(llm, export_tools([weather])).kickoff()
    assert len(CALLS) >= 1
    assert done.raw.strip()
    assert done.token_usage.completion_tokens > 0
    crewai_event_bus.flush()
    first = events[0].response
    assert first[0]["function"]["name"] == "weather"
    assert first[0]["ferrule"]["how"] == "grammar"


def test_our_conversation_calls_their_tool() -> None:
    tools = import_tools([crew_tool("Harbour Lookup")(harbour)])
    results = results_from_conversation(tools, "Is the harbour of Genoa open?")
    assert len(CALLS) == 1
    assert [result.content for result in results] == ["open"]


def test_an_answer_can_be_held_to_a_type_by_our_grammar() -> None:
    answer = FerruleLLM(smol(), max_tokens=80).call("I was in Genoa.", response_model=Place)
    assert isinstance(answer, Place)


def test_a_loop_with_a_tool_goes_through_the_crew_as_meant() -> None:
    llm, engine = llm_of(
        Reply.of(Reasoning("hm"), "so", ToolCall.of("weather", '{"city": "Paris", "days": 2}', "abc")),
        Reply.of("clear"),
    )
    assert crew_of(llm, export_tools([weather])).kickoff().raw == "clear"
    assert CALLS == [("Paris", "2")]
    first, second = engine.requests
    assert [message.role for message in first.messages] == [Role.SYSTEM, Role.USER]
    assert first.tools == (weather.definition,)
    called = ToolCall.of("weather", '{"city": "Paris", "days": 2}', "abc")
    result = [message for message in second.messages if message.tool_calls or message.results]
    assert result == [
        ChatMessage(Role.ASSISTANT, (called,)),
        ChatMessage(Role.TOOL, (ToolResult("abc", "weather", '{"city": "Paris", "sky": "clear"}'),)),
    ]


def test_the_same_call_twice_really_happens_twice() -> None:
    same = calls("weather", '{"city": "Paris"}')
    llm, _ = llm_of(same, same, Reply.of("clear"))
    assert crew_of(llm, export_tools([weather])).kickoff().raw == "clear"
    assert len(CALLS) == 2


def test_every_argument_that_may_be_left_out_may_be_null_to_other_models() -> None:
    (tool,) = export_tools([weather])
    (offered,), _, _ = convert_tools_to_openai_schema([tool])
    parameters = offered["function"]["parameters"]
    assert parameters["required"] == ["city", "days"]
    assert {"type": "null"} in parameters["properties"]["days"]["anyOf"]
    assert tool.run(city="Paris", days=None) == '{"city": "Paris", "sky": "clear"}'
    assert CALLS == [("Paris", "1")]


@each_bad_argument
def test_invalid_arguments_are_refused(arguments: str) -> None:
    (tool,) = export_tools([weather])
    data = tool.run(**ToolCall.of("weather", arguments).arguments)
    assert isinstance(data, ToolFailure)
    assert data.reason is ToolFailureReason.INVALID_INPUT
    assert data.message.startswith("invalid_arguments: /")
    assert not CALLS


def test_what_a_tool_says_went_wrong_is_a_failure_of_theirs_and_reaches_the_model() -> None:
    llm, engine = llm_of(calls("weather", '{"city": "Nowhere"}'), Reply.of("sorry"))
    assert crew_of(llm, export_tools([weather])).kickoff().raw == "sorry"
    results = [result for message in engine.requests[1].messages for result in message.results]
    assert [result.text for result in results] == ["no such city"]


def test_a_tool_with_side_effects_asks_for_approval() -> None:
    for decide, words in ((None, "denied: no one was available to approve it"), (never, "denied: not on Sundays")):
        (tool,) = export_tools([send], decide) if decide else export_tools([send])
        data = tool.run(to="Ada")
        assert isinstance(data, ToolFailure)
        assert data.message == words
    (tool,) = export_tools([send], always)
    assert tool.run(to="Ada") == "sent to Ada"
    assert asyncio.run(tool.arun(to="Bob")) == "sent to Bob"
    assert [who for who, _ in CALLS] == ["Ada", "Bob"]


def test_tools_can_be_exported_in_a_loop() -> None:
    async def ran() -> Any:
        (tool,) = await export_tools_async([weather])
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
    (offered,), _, _ = convert_tools_to_openai_schema(export_tools([send]))
    call = ToolCall.of("send", '{"to": "Ada"}', "x")
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call.as_openai()]},
        {"role": "tool", "tool_call_id": "x", "name": "send", "content": "sent"},
    ]
    assert llm.call(messages, tools=[offered]) == "yes"
    (request,) = engine.requests
    assert request.messages == (
        ChatMessage.system("Be brief."),
        ChatMessage.user("go"),
        ChatMessage(Role.ASSISTANT, (call,)),
        ChatMessage.tool("x", "sent", "send"),
    )
    assert [tool.name for tool in request.tools] == ["send"]
    assert (request.temperature, request.max_tokens, request.top_p, request.top_k, request.seed) == (0.5, 9, 0.9, 3, 7)
    assert (request.stop, request.parallel_tool_calls) == (("END",), False)
    assert request.tool_choice_policy is ChoicePolicy.REQUIRED_ALWAYS


@pytest.mark.parametrize(
    "chosen, expected",
    [
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        ("required", ToolChoice.required()),
        ({"type": "function", "function": {"name": "send"}}, ToolChoice.one("send")),
    ],
)
def test_each_choice_means_the_same_here_and_none_counts_without_tools(chosen: Any, expected: ToolChoice) -> None:
    llm, engine = llm_of(Reply.of("yes"), Reply.of("yes"), tool_choice=chosen)
    offered, _, _ = convert_tools_to_openai_schema(export_tools([send, weather]))
    llm.call("go", tools=offered)
    llm.call("go")
    assert [request.tool_choice for request in engine.requests] == [expected, ToolChoice.auto()]


def test_an_option_that_nobody_knows_is_refused() -> None:
    for options in ({"tool_choise": "auto"}, {"frequency_penalty": 1.0}):
        with pytest.raises(DefinitionError):
            FerruleLLM(FakeEngine([]), **options)


@each_incomplete_reply
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_not_whole_fails_the_crew_and_never_runs(reply: Reply, expected: str, stream: bool) -> None:
    llm, _ = llm_of(reply, stream=stream)
    events = collect_events(LLMCallFailedEvent)
    with pytest.raises(RuntimeError, match=expected):
        crew_of(llm, export_tools([weather])).kickoff()
    crewai_event_bus.flush()
    assert expected in events[0].error
    assert not CALLS


def test_streamed_pieces_sum_to_the_call_and_the_text() -> None:
    llm, _ = llm_of(PARIS, stream=True)
    events = collect_events(LLMStreamChunkEvent)
    offered, _, _ = convert_tools_to_openai_schema(export_tools([weather]))
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
    offered, functions, _ = convert_tools_to_openai_schema(export_tools([weather]))
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


def test_imported_tools_of_every_kind_run_and_their_failures_are_reported() -> None:
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

    tools = import_tools([Slow(), quick, broken], side_effects=["broken"])
    assert side_effects_of(tools) == {"slow_one": False, "quick": False, "broken": True}
    requests = [("slow_one", {"seconds": 1}), ("slow_one", {"seconds": 0}), ("quick", {"word": "a"}), ("broken", {})]
    results = dispatch_calls(tools, *requests, is_approved=True)
    assert [result.content for result in results] == [
        {"name": "here"},
        "time runs forward (code: past)",
        "aa",
        "the tool failed (RuntimeError)",
    ]


def test_an_exported_tool_is_identified_by_its_definition() -> None:
    (tool,) = export_tools([send])
    assert isinstance(tool, FerruleTool)
    assert tool.definition == send.definition


def test_imported_plain_functions_run_in_threads_of_the_source() -> None:
    @crew_tool("who")
    def who() -> str:
        """Names the thread."""
        return threading.current_thread().name

    assert asyncio.run(import_tools([who]).call("who", {}, CallContext())) == Answered("crewai-tool")
