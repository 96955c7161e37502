"""LangChain: Ferrule's model and tools in an agent, and its tools in a conversation. Run where it is installed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core import exceptions as theirs
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException
from langchain_core.tools import tool as their_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, field_validator

from ferrule import (
    ChatMessage,
    ChoicePolicy,
    DefinitionError,
    EngineUnavailableError,
    FerruleError,
    Reply,
    ToolCall,
    ToolChoice,
    ToolExecutor,
    tool,
)
from ferrule.engines.fake import FakeEngine
from ferrule.integrations.langchain import ChatFerrule, export_tools, export_tools_async, import_tools, reviewer
from ferrule.sources.functions import Functions
from frameworks.borrowing import dispatch_calls, mayor, results_from_conversation
from frameworks.given import CALLS, Sky, always, never, send, smol, weather
from frameworks.replies import (
    HISTORY,
    PLAIN_TEXT,
    ULM_AND_BONN,
    Failing,
    calls,
    each_bad_argument,
    each_incomplete_reply,
)

CALL = {"type": "tool_call", "name": "weather", "id": "c7"}


def call_tool(value: BaseTool, arguments: dict[str, Any], id: str = "c7") -> ToolMessage:
    return value.invoke({"type": "tool_call", "name": value.name, "id": id, "args": arguments})


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


def edited_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": "send", "args": arguments}}


# Exported tools.


def test_an_exported_tool_has_the_schema_unchanged_and_returns_the_result() -> None:
    (exported,) = export_tools([weather])
    assert exported.args_schema == weather.definition.parameters
    reply = call_tool(exported, {"city": "Paris"})
    assert (reply.status, reply.content) == ("success", '{"city": "Paris", "sky": "clear"}')
    assert reply.artifact.content == {"city": "Paris", "sky": "clear"}
    assert reply.tool_call_id == reply.artifact.tool_call_id == "c7"
    assert asyncio.run(exported.ainvoke({**CALL, "args": {"city": "Paris"}})).content == reply.content


@each_bad_argument
def test_invalid_arguments_are_refused_and_reported_as_an_error(arguments: str) -> None:
    (exported,) = export_tools([weather])
    reply = call_tool(exported, ToolCall.of("weather", arguments).arguments)
    assert (reply.status, reply.text[:17]) == ("error", "invalid_arguments")
    assert not CALLS


def test_what_is_no_json_is_refused_too() -> None:
    reply = call_tool(export_tools([weather])[0], {"city": "Paris", "days": float("nan")})
    assert (reply.status, reply.text[:17]) == ("error", "invalid_arguments")


def test_a_tool_error_is_reported_with_its_message() -> None:
    reply = call_tool(export_tools([weather])[0], {"city": "Nowhere"})
    assert (reply.status, reply.content) == ("error", "no such city")


def test_an_argument_may_have_a_name_that_langchain_uses_itself() -> None:
    @tool
    def odd(run_manager: str, config: str, callbacks: str) -> str:
        """Takes arguments whose names LangChain uses itself."""
        return run_manager + config + callbacks

    assert call_tool(export_tools([odd])[0], {"run_manager": "a", "config": "b", "callbacks": "c"}).content == "abc"


def test_a_tool_with_side_effects_asks_first_and_gets_the_calls_id() -> None:
    for decide, status, expected_calls in ((never, "error", []), (always, "success", [("Ann", "c9")])):
        reply = call_tool(export_tools([send], decide)[0], {"to": "Ann"}, "c9")
        assert (reply.status, CALLS) == (status, expected_calls)
    assert call_tool(export_tools([send])[0], {"to": "Ann"}).text == "denied: no one was available to approve it"
    assert call_tool(export_tools([send], always)[0], {"whom": "Ann"}).text.startswith("invalid_arguments")


def test_a_source_is_exported_in_its_own_loop() -> None:
    async def lent() -> ToolMessage:
        (created,) = await export_tools_async(ToolExecutor(Functions([weather])))
        return await created.ainvoke({**CALL, "args": {"city": "Paris"}})

    assert asyncio.run(lent()).status == "success"


@pytest.mark.parametrize(
    "answer, expected_calls, expected",
    [
        ({"type": "approve"}, [("Ann", "call_1")], "sent to Ann"),
        ({"type": "reject", "message": "not now"}, [], "denied: not now"),
        (
            {"type": "edit", "edited_action": {"name": "send", "args": {"to": "Bob"}}},
            [("Bob", "call_1")],
            "sent to Bob",
        ),
        ({"type": "edit", "edited_action": {"name": "send", "args": {"to": 1}}}, [], "invalid_arguments"),
    ],
)
def test_a_graph_stops_for_a_reviewer_and_resumes_with_the_decision(
    answer: dict[str, Any], expected_calls: list[tuple[str, str]], expected: str
) -> None:
    model = ChatFerrule(FakeEngine([calls("send", '{"to": "Ann"}'), PLAIN_TEXT]))
    agent = create_agent(model, export_tools([send], reviewer), checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    (stop,) = agent.invoke(ask("Write to Ann."), thread)["__interrupt__"]
    assert stop.value["type"] == "tool_approval"
    assert (stop.value["name"], stop.value["args"], CALLS) == ("send", {"to": "Ann"}, [])
    *_, result, last = agent.invoke(Command(resume=answer), thread)["messages"]
    assert result.text.startswith(expected)
    assert (last.text, expected_calls) == ("It is clear.", CALLS)


# The model.


def test_the_engine_receives_the_messages_and_tools() -> None:
    engine = FakeEngine([PLAIN_TEXT])
    ChatFerrule(engine, temperature=0.5, seed=3, max_tokens=9).bind_tools(
        export_tools([weather]), tool_choice="any"
    ).invoke(
        [
            SystemMessage("Be short."),
            HumanMessage([{"type": "text", "text": "Weather?"}]),
            AIMessage(
                "Let me see.",
                additional_kwargs={"reasoning_content": "Paris, surely."},
                tool_calls=[{**CALL, "args": {"city": "Paris"}}],  # type: ignore[list-item]
            ),
            ToolMessage("down", tool_call_id="c7", status="error"),
        ],
        temperature=0.1,
        stop=["\n"],
    )
    (request,) = engine.requests
    assert request.messages == (*HISTORY, ChatMessage.tool("c7", "down", "weather", is_error=True))
    assert [entry.parameters for entry in request.tools] == [weather.definition.parameters]
    assert request.tool_choice == ToolChoice.required()
    assert (request.temperature, request.seed, request.max_tokens, request.stop) == (0.1, 3, 9, ("\n",))


@pytest.mark.parametrize(
    "word, choice",
    [
        (None, ToolChoice.auto()),
        ("none", ToolChoice.none()),
        (True, ToolChoice.required()),
        ("required", ToolChoice.required()),
        ("weather", ToolChoice.one("weather")),
        ({"type": "function", "function": {"name": "weather"}}, ToolChoice.one("weather")),
    ],
)
def test_a_choice_arrives_as_meant(word: Any, choice: ToolChoice) -> None:
    engine = FakeEngine([PLAIN_TEXT])
    ChatFerrule(engine).bind_tools([weather], tool_choice=word, parallel_tool_calls=False).invoke("Hello")
    (request,) = engine.requests
    assert (request.tool_choice, request.parallel_tool_calls) == (choice, False)


def test_what_cannot_be_sent_to_a_model_is_refused() -> None:
    model = ChatFerrule(FakeEngine([PLAIN_TEXT]))
    picture = HumanMessage([{"type": "image", "url": "https://example.com/a.png"}])
    with pytest.raises(theirs.ModelInvalidRequestError, match="image"):
        model.invoke([picture])
    with pytest.raises(theirs.ModelInvalidRequestError, match="not a supported tool type"):
        model.bind_tools([{"type": "web_search"}]).invoke("Hello")


def test_chunks_sum_to_the_whole_message() -> None:
    whole = ChatFerrule(FakeEngine([ULM_AND_BONN])).invoke("Weather?")
    first, second = whole.tool_calls
    assert (first["id"], first["args"], second["args"]) == ("a1", {"city": "Ulm", "days": 2}, {"city": "Bonn"})
    assert whole.usage_metadata == {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    assert whole.response_metadata["finish_reason"] == "tool_calls"
    assert whole.response_metadata["ferrule"]["receipts"]["a2"]["how"] == "validated"
    assert [block["type"] for block in whole.content_blocks] == ["reasoning", "text", "tool_call", "tool_call"]
    for chunks in (_stream(ULM_AND_BONN), asyncio.run(_stream_in_loop(ULM_AND_BONN))):
        total = sum(chunks[1:], chunks[0])
        assert isinstance(total, AIMessageChunk)
        assert len(chunks) > 6
        for name in ("text", "tool_calls", "usage_metadata", "response_metadata", "additional_kwargs"):
            assert getattr(total, name) == getattr(whole, name)


def _stream(reply: Reply) -> list[Any]:
    return list(ChatFerrule(FakeEngine([reply])).stream("Weather?"))


async def _stream_in_loop(reply: Reply) -> list[Any]:
    return [chunk async for chunk in ChatFerrule(FakeEngine([reply])).astream("Weather?")]


@each_incomplete_reply
def test_a_call_that_is_not_whole_never_arrives(reply: Reply, expected: str) -> None:
    with pytest.raises(theirs.ModelError, match=expected):
        ChatFerrule(FakeEngine([reply])).invoke("Weather?")
    with pytest.raises(theirs.ModelError, match=expected):
        asyncio.run(ChatFerrule(FakeEngine([reply])).ainvoke("Weather?"))
    with pytest.raises(theirs.ModelError, match=expected):
        _stream(reply)
    with pytest.raises(theirs.ModelError, match=expected):
        asyncio.run(_stream_in_loop(reply))


@pytest.mark.parametrize(
    "error, kind",
    [
        (EngineUnavailableError("gone"), theirs.ModelConnectionError),
        (DefinitionError("too long", code="context_length_exceeded"), theirs.ContextOverflowError),
    ],
)
def test_an_engine_that_fails_raises_langchains_error_of_its_kind(error: FerruleError, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        ChatFerrule(Failing(error)).invoke("Hello")
    with pytest.raises(kind):
        list(ChatFerrule(Failing(error)).stream("Hello"))


def test_an_answer_is_held_to_a_schema_and_read() -> None:
    good, bad = Reply.of('{"colour": "blue"}'), Reply.of('{"colour": 1}')
    engine = FakeEngine([good, good, bad, bad])
    model = ChatFerrule(engine)
    assert model.with_structured_output(Sky).invoke("Sky?") == Sky(colour="blue")
    assert model.with_structured_output(Sky.model_json_schema()).invoke("Sky?") == {"colour": "blue"}
    assert engine.requests[0].response_schema == engine.requests[1].response_schema == Sky.model_json_schema()
    with pytest.raises(theirs.OutputParserException):
        model.with_structured_output(Sky).invoke("Sky?")
    message = model.with_structured_output(Sky, include_raw=True).invoke("Sky?")
    assert message["parsed"] is None
    assert isinstance(message["parsing_error"], theirs.OutputParserException)
    by_tool = ChatFerrule(FakeEngine([calls("Sky", '{"colour": "red"}')]))
    assert by_tool.with_structured_output(Sky, method="function_calling").invoke("Sky?") == Sky(colour="red")


def test_an_agents_response_format_is_our_response_schema() -> None:
    engine = FakeEngine([calls("weather", '{"city": "Ulm"}'), Reply.of('{"colour": "grey"}')])
    done = create_agent(ChatFerrule(engine), export_tools([weather]), response_format=Sky).invoke(ask("Sky?"))
    assert done["structured_response"] == Sky(colour="grey")
    assert all(request.response_schema is not None and request.tools for request in engine.requests)


# Imported tools.


class City(BaseModel):
    name: str
    near: list[City] = []

    @field_validator("name")
    @classmethod
    def known_city(cls, name: str) -> str:
        if name == "Atlantis":
            raise ValueError("sunk")
        return name


@their_tool
def size(city: City) -> dict[str, Any]:
    """How large a city is."""
    if city.name == "Nowhere":
        raise ToolException("there is no such city")
    if city.name == "Hell":
        raise RuntimeError("a secret")
    return {"name": city.name, "near": len(city.near)}


RULER = their_tool(mayor)


def call_imported(value: BaseTool, arguments: dict[str, Any]) -> tuple[Any, bool]:
    (result,) = dispatch_calls(import_tools([value]), (value.name, arguments))
    return result.content, result.is_error


def test_their_tools_run_in_our_executor() -> None:
    paris = {"city": {"name": "Paris", "near": [{"name": "Lyon"}]}}
    assert call_imported(size, paris) == ('{"name": "Paris", "near": 1}', False)
    assert call_imported(RULER, {"city": "Ulm"}) == ("the mayor of Ulm", False)
    plain = Tool("shout", str.upper, "Shouts.")
    assert call_imported(plain, {"__arg1": "hello"}) == ("HELLO", False)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    raw = StructuredTool(name="twice", description="Twice.", args_schema=schema, func=lambda n: 2 * n)
    assert call_imported(raw, {"n": 4}) == ("8", False)
    assert call_imported(raw, {"n": "4"})[1]


@pytest.mark.parametrize(
    "name, expected",
    [("Nowhere", "there is no such city"), ("Atlantis", "sunk"), ("Hell", "the tool failed (RuntimeError)")],
)
def test_the_messages_of_langchain_tool_errors_are_reported(name: str, expected: str) -> None:
    content, is_error = call_imported(size, {"city": {"name": name}})
    assert is_error
    assert expected in content


def test_side_effects_of_imported_tools_are_declared_by_name() -> None:
    assert asyncio.run(import_tools([RULER], side_effects=["mayor"]).tools())[0].side_effects
    with pytest.raises(DefinitionError):
        import_tools([RULER], side_effects=["major"])


# With a real model.


def test_their_agent_calls_our_tool_with_our_model() -> None:
    model = ChatFerrule(smol(), max_tokens=48, temperature=0, tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP)
    agent = create_agent(model, export_tools([weather]), system_prompt="You report the weather.")
    steps: list[Any] = list(agent.stream(ask("What is the weather in Paris?"), stream_mode=["messages", "values"]))
    pieces = [entry[0] for mode, entry in steps if mode == "messages"]
    assert any(isinstance(piece, AIMessageChunk) and piece.tool_call_chunks for piece in pieces)
    _, call, result, last = steps[-1][1]["messages"]
    assert call.response_metadata["ferrule"]["receipts"][call.tool_calls[0]["id"]]["how"] == "grammar"
    assert (result.status, bool(CALLS), last.type) == ("success", True, "ai")


def test_our_conversation_calls_their_tool() -> None:
    results = results_from_conversation(import_tools([RULER]), "Who is the mayor of Paris?")
    assert results
    assert results[0].text.startswith("the mayor of")
