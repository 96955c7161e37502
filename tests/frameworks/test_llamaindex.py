"""LlamaIndex: Ferrule's model and tools in an agent, and its tools in a conversation. Run where it is installed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage as TheirMessage
from llama_index.core.base.llms.types import ImageBlock, MessageRole, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.tool_spec.base import BaseToolSpec
from llama_index.core.workflow import Context

from ferrule import (
    CallContext,
    ChatMessage,
    ChoicePolicy,
    DefinitionError,
    EngineError,
    Reply,
    ToolCall,
    ToolChoice,
    ToolExecutor,
)
from ferrule.core.outcome import Answered
from ferrule.engines.fake import FakeEngine
from ferrule.integrations.llamaindex import FerruleLLM, FerruleToolSpec, export_tools, export_tools_async, import_tools
from ferrule.sources.functions import Functions
from frameworks.borrowing import dispatch_calls, mayor, results_from_conversation
from frameworks.given import CALLS, Sky, always, never, send, smol, weather
from frameworks.replies import (
    BONN,
    HISTORY,
    PLAIN_TEXT,
    ULM,
    ULM_AND_BONN,
    calls,
    each_bad_argument,
    each_incomplete_reply,
)

# LlamaIndex reads every attribute of an agent, including those that pydantic has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")

HELLO = [TheirMessage("Weather?")]


# Exported tools.


def test_an_exported_tool_has_the_schema_unchanged_and_answers_in_json() -> None:
    (exported,) = export_tools([weather])
    assert exported.metadata.get_parameters_dict() == weather.definition.parameters
    for reply in (exported.call(city="Paris"), asyncio.run(exported.acall(city="Paris")), exported(city="Paris")):
        assert (reply.is_error, reply.content) == (False, '{"city": "Paris", "sky": "clear"}')
        assert reply.raw_output == {"city": "Paris", "sky": "clear"}


def test_a_spec_gives_all_tools_or_those_that_are_named() -> None:
    spec = FerruleToolSpec([weather, send])
    assert [tool.metadata.name for tool in spec.to_tool_list()] == ["weather", "send"]
    assert [tool.metadata.name for tool in spec.to_tool_list(["send"])] == ["send"]


@each_bad_argument
def test_invalid_arguments_are_refused_and_reported_as_an_error(arguments: str) -> None:
    reply = export_tools([weather])[0].call(**ToolCall.of("weather", arguments).arguments)
    assert reply.is_error
    assert reply.content.startswith("Error: invalid_arguments")
    assert not CALLS


def test_a_tool_error_is_reported_with_its_message() -> None:
    reply = export_tools([weather])[0].call(city="Nowhere")
    assert (reply.is_error, reply.content) == (True, "Error: no such city")


def test_a_tool_with_side_effects_asks_first() -> None:
    for decide, is_error in ((never, True), (always, False)):
        assert export_tools([send], decide)[0].call(to="Ann").is_error is is_error
        assert bool(CALLS) is not is_error
    assert "no one was available" in export_tools([send])[0].call(to="Ann").content


def test_a_source_is_exported_in_its_own_loop() -> None:
    async def lent() -> ToolOutput:
        (created,) = await export_tools_async(ToolExecutor(Functions([weather])))
        return await created.acall(city="Paris")

    assert not asyncio.run(lent()).is_error


# The model.


def test_the_engine_receives_the_messages_and_tools() -> None:
    engine = FakeEngine([PLAIN_TEXT])
    history = [
        TheirMessage("Be short.", role=MessageRole.SYSTEM),
        TheirMessage("Weather?"),
        TheirMessage(
            role=MessageRole.ASSISTANT,
            blocks=[
                ThinkingBlock(content="Paris, surely."),
                TextBlock(text="Let me see."),
                ToolCallBlock(tool_call_id="c7", tool_name="weather", tool_kwargs={"city": "Paris"}),
            ],
        ),
        TheirMessage("clear", role=MessageRole.TOOL, additional_kwargs={"tool_call_id": "c7"}),
    ]
    model = FerruleLLM(engine, temperature=0.5, seed=3, max_tokens=9)
    model.chat_with_tools(export_tools([weather]), "So?", history, tool_required=True, temperature=0.1, stop=["\n"])
    (request,) = engine.requests
    assert request.messages == (*HISTORY, ChatMessage.tool("c7", "clear", "weather"), ChatMessage.user("So?"))
    assert [entry.parameters for entry in request.tools] == [weather.definition.parameters]
    assert (request.tool_choice, request.parallel_tool_calls) == (ToolChoice.required(), False)
    assert (request.temperature, request.seed, request.max_tokens, request.stop) == (0.1, 3, 9, ("\n",))


@pytest.mark.parametrize(
    "word, choice",
    [
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        ("any", ToolChoice.required()),
        ("weather", ToolChoice.one("weather")),
        ({"type": "function", "function": {"name": "weather"}}, ToolChoice.one("weather")),
    ],
)
def test_a_choice_arrives_as_meant(word: Any, choice: ToolChoice) -> None:
    engine = FakeEngine([PLAIN_TEXT])
    FerruleLLM(engine).chat_with_tools(
        export_tools([weather]), "Weather?", allow_parallel_tool_calls=True, tool_choice=word
    )
    assert (engine.requests[0].tool_choice, engine.requests[0].parallel_tool_calls) == (choice, True)


def test_what_cannot_be_sent_to_a_model_is_refused() -> None:
    picture = TheirMessage(role=MessageRole.USER, blocks=[ImageBlock(image=b"x", image_mimetype="image/png")])
    with pytest.raises(DefinitionError, match="image"):
        FerruleLLM(FakeEngine([PLAIN_TEXT])).chat([picture])


def test_a_stream_ends_with_the_whole_message() -> None:
    model = FerruleLLM(FakeEngine([ULM_AND_BONN] * 3))
    whole: Any = model.chat(HELLO)
    chosen = model.get_tool_calls_from_response(whole)
    assert [(one.tool_id, one.tool_kwargs) for one in chosen] == [("a1", ULM.arguments), ("a2", BONN.arguments)]
    assert whole.message.content == "Wait."
    assert whole.raw["usage"] == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    assert whole.raw["ferrule"]["receipts"]["a2"]["how"] == "validated"

    async def in_a_loop() -> list[Any]:
        return [step async for step in await model.astream_chat(HELLO)]

    for steps in (list(model.stream_chat(HELLO)), asyncio.run(in_a_loop())):
        assert (steps[-1].message, steps[-1].raw) == (whole.message, whole.raw)
        assert "".join(step.delta or "" for step in steps) == "Wait."
        assert "".join(step.additional_kwargs.get("thinking_delta", "") for step in steps) == "Hm. "
        forming = next(block for block in steps[-3].message.blocks[::-1] if isinstance(block, ToolCallBlock))
        assert isinstance(forming.tool_kwargs, str)
        assert len(model.get_tool_calls_from_response(steps[-3])) == 1


def test_a_prompt_is_completed() -> None:
    model = FerruleLLM(FakeEngine([PLAIN_TEXT] * 4))

    async def in_a_loop() -> tuple[str, list[str]]:
        whole = await model.acomplete("Weather?")
        return whole.text, [step.text async for step in await model.astream_complete("Weather?")]

    text, steps = asyncio.run(in_a_loop())
    assert {text, steps[-1], model.complete("Weather?").text} == {"It is clear."}
    assert "".join(step.delta or "" for step in model.stream_complete("Weather?")) == "It is clear."


@each_incomplete_reply
def test_a_call_that_is_not_whole_never_arrives(reply: Reply, expected: str) -> None:
    async def in_a_loop() -> None:
        async for _ in await FerruleLLM(FakeEngine([reply])).astream_chat(HELLO):
            pass

    with pytest.raises(EngineError, match=expected):
        FerruleLLM(FakeEngine([reply])).chat(HELLO)
    with pytest.raises(EngineError, match=expected):
        list(FerruleLLM(FakeEngine([reply])).stream_chat(HELLO))
    with pytest.raises(EngineError, match=expected):
        asyncio.run(in_a_loop())


def test_their_structured_prediction_is_a_call_of_ours() -> None:
    engine = FakeEngine([calls("Sky", '{"colour": "grey"}')])
    assert FerruleLLM(engine).structured_predict(Sky, PromptTemplate("Sky?")) == Sky(colour="grey")
    assert engine.requests[0].tool_choice == ToolChoice.required()
    with pytest.raises(EngineError, match="instead of a tool call"):
        FerruleLLM(FakeEngine([PLAIN_TEXT])).structured_predict(Sky, PromptTemplate("Sky?"))


# Imported tools.


def size(city: str) -> dict[str, Any]:
    """How large a city is."""
    if city == "Hell":
        raise RuntimeError("a secret")
    return {"name": city, "large": True}


class Oracle(BaseTool):
    """A tool of the oldest kind, which is synchronous and takes one input."""

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata("Knows.", "oracle")

    def __call__(self, input: Any) -> ToolOutput:
        return ToolOutput("oracle", f"who knows {input}?", raw_input={}, is_error=input == "all")


class Specified(BaseToolSpec):
    spec_functions = ["ruled"]  # noqa: RUF012  # as theirs have it

    def ruled(self, city: str) -> str:
        """Whether a city is ruled."""
        return "yes"


def call_imported(value: BaseTool | BaseToolSpec, arguments: dict[str, Any]) -> tuple[Any, bool]:
    source = import_tools([value])
    (definition,) = asyncio.run(source.tools())
    (result,) = dispatch_calls(source, (definition.name, arguments))
    return result.content, result.is_error


@pytest.mark.parametrize(
    "value, arguments, answer",
    [
        (FunctionTool.from_defaults(size), {"city": "Ulm"}, ({"name": "Ulm", "large": True}, False)),
        (FunctionTool.from_defaults(async_fn=mayor), {"city": "Ulm"}, ("the mayor of Ulm", False)),
        (FunctionTool.from_defaults(size, callback=lambda _: "large"), {"city": "Ulm"}, ("large", False)),
        (FunctionTool.from_defaults(size), {"city": "Hell"}, ("the tool failed (RuntimeError)", True)),
        (Oracle(), {"input": "this"}, ("who knows this?", False)),
        (Oracle(), {"input": "all"}, ("who knows all?", True)),
        (Specified(), {"city": "Ulm"}, ("yes", False)),
    ],
)
def test_their_tools_run_in_our_executor(value: Any, arguments: dict[str, Any], answer: tuple[Any, bool]) -> None:
    assert call_imported(value, arguments) == answer


def test_arguments_that_do_not_fit_their_schema_do_not_reach_their_tool() -> None:
    content, is_error = call_imported(FunctionTool.from_defaults(size), {"town": "Ulm"})
    assert is_error
    assert content.startswith("invalid_arguments")


def test_side_effects_of_imported_tools_are_declared_by_name() -> None:
    assert asyncio.run(import_tools([Oracle()], side_effects=["oracle"]).tools())[0].side_effects
    with pytest.raises(DefinitionError):
        import_tools([Oracle()], side_effects=["major"])


def test_a_tool_that_needs_a_workflow_is_not_imported() -> None:
    async def remember(ctx: Context, fact: str) -> str:
        """Remembers a fact."""
        return fact

    remember.__annotations__["ctx"] = Context
    with pytest.raises(DefinitionError, match="workflow"):
        import_tools([FunctionTool.from_defaults(async_fn=remember)])


# With a real model.


def test_their_agent_calls_our_tool_with_our_model() -> None:
    async def ran() -> tuple[Any, list[Any]]:
        model = FerruleLLM(smol(), max_tokens=48, temperature=0.0, tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP)
        agent = FunctionAgent(tools=list(export_tools([weather])), llm=model, system_prompt="You report the weather.")
        handler = agent.run("What is the weather in Paris?")
        expected_calls = [event async for event in handler.stream_events() if isinstance(event, AgentStream)]
        return await handler, expected_calls

    output, events = asyncio.run(ran())
    (done,) = output.tool_calls[:1]
    assert (done.tool_name, done.tool_output.is_error) == ("weather", False)
    assert CALLS
    receipts = [raw["ferrule"]["receipts"] for raw in (event.raw for event in events) if raw and "ferrule" in raw]
    assert receipts[0][done.tool_id]["how"] == "grammar"


def test_our_conversation_calls_their_tool() -> None:
    tools = import_tools([FunctionTool.from_defaults(async_fn=mayor)])
    results = results_from_conversation(tools, "Who is the mayor of Paris?")
    assert results
    assert results[0].text.startswith("the mayor of")


def test_imported_plain_functions_run_in_threads_of_the_source() -> None:
    def who() -> str:
        return threading.current_thread().name

    source = import_tools([FunctionTool.from_defaults(who)])
    assert asyncio.run(source.call("who", {}, CallContext())) == Answered("llamaindex-tool")
