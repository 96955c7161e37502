"""What every engine offers: `ask`, `stream`, their synchronous forms, and `with`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from ferrule import (
    ChatMessage,
    DefinitionError,
    Engine,
    Finish,
    InvalidResponseError,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallRequest,
    ToolChoice,
)
from ferrule.engines.fake import FakeEngine


@dataclass
class City:
    name: str
    country: str


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: clear"


ROME = '{"name": "Rome", "country": "Italy"}'


class ClosingEngine(FakeEngine):
    closed = 0

    async def close(self) -> None:
        self.closed += 1


def test_a_prompt_functions_and_options_make_the_request() -> None:
    engine = FakeEngine([Reply.of(ToolCall.of("get_weather", {"city": "Rome"}, id="c1"))])
    reply = engine.ask_sync("How is Rome?", tools=[get_weather], tool_choice="required", temperature=0.0, max_tokens=20)
    assert reply.calls[0].arguments == {"city": "Rome"}
    (request,) = engine.requests
    assert request.messages == (ChatMessage.user("How is Rome?"),)
    assert (request.tools[0].name, request.tool_choice) == ("get_weather", ToolChoice.required())
    assert (request.temperature, request.max_tokens) == (0.0, 20)


def test_ask_is_asynchronous_and_takes_dicts() -> None:
    engine = FakeEngine([Reply.of("hello")])
    assert asyncio.run(engine.ask([{"role": "user", "content": "hi"}])).text == "hello"
    assert engine.requests[0].messages == (ChatMessage.user("hi"),)


def test_a_request_is_taken_as_it_is_and_options_replace_its_fields() -> None:
    engine = FakeEngine([Reply.of("a"), Reply.of("b")])
    request = ToolCallRequest(messages="hi", seed=1)
    engine.ask_sync(request)
    engine.ask_sync(request, seed=2)
    assert engine.requests[0] is request
    assert (engine.requests[1].seed, engine.requests[1].messages) == (2, request.messages)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="max_token"):
        FakeEngine([]).ask_sync("hi", max_token=5)  # pyright: ignore[reportCallIssue]


def test_a_response_type_sets_the_schema_and_gives_an_object() -> None:
    engine = FakeEngine([Reply.of(ROME)])
    assert engine.ask_sync("Name a city.", response_type=City).value == City("Rome", "Italy")
    schema = engine.requests[0].response_schema
    assert schema is not None
    assert schema["required"] == ["name", "country"]


def test_a_schema_gives_plain_values() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    engine = FakeEngine([Reply.of(ROME), Reply.of(ROME), Reply.of('{"name": 3}')])
    assert engine.ask_sync("Name a city.", response_schema=schema).value == {"name": "Rome", "country": "Italy"}
    assert engine.ask_sync("Name a city.", response_type=schema).value["name"] == "Rome"
    with pytest.raises(InvalidResponseError, match="name"):
        _ = engine.ask_sync(ToolCallRequest(messages="Name a city.", response_schema=schema)).value


def test_an_answer_that_does_not_fit_raises_when_its_value_is_read() -> None:
    reply = FakeEngine([Reply.of('{"name": "Rome"}')]).ask_sync("Name a city.", response_type=City)
    assert reply.text == '{"name": "Rome"}'
    with pytest.raises(InvalidResponseError, match="country"):
        _ = reply.value


def test_a_reply_without_a_response_type_has_no_value() -> None:
    with pytest.raises(DefinitionError) as refusal:
        _ = FakeEngine([Reply.of("hi")]).ask_sync("hi").value
    assert "response_type=" in refusal.value.hint


def test_a_stream_takes_what_ask_takes_and_also_a_request() -> None:
    engine = FakeEngine([Reply.of("hi"), Reply.of("ho")])
    assert [type(event) for event in engine.stream_sync("hello", tools=[get_weather], seed=1)] == [TextDelta, Finish]
    assert (engine.requests[0].tools[0].name, engine.requests[0].seed) == ("get_weather", 1)

    async def texts() -> list[str]:
        request = ToolCallRequest(messages="hello")
        return [event.text async for event in engine.stream(request) if isinstance(event, TextDelta)]

    assert asyncio.run(texts()) == ["ho"]


def test_the_text_of_a_reply_can_be_streamed_alone() -> None:
    engine = FakeEngine([Reply.of("It is ", ToolCall.of("ping", id="c1"), "sunny.")])
    assert list(engine.stream_text_sync("hello", seed=1)) == ["It is ", "sunny."]
    assert engine.requests[0].seed == 1


def test_a_wrong_argument_is_refused_before_the_first_event() -> None:
    with pytest.raises(DefinitionError):
        FakeEngine([]).stream("hello", max_tokens=0)


def test_with_closes_the_engine() -> None:
    with ClosingEngine([Reply.of("hi")]) as engine:
        assert engine.ask_sync("hello").text == "hi"
    assert engine.closed == 1

    async def use(engine: Engine) -> None:
        async with engine:
            await engine.ask("hello")

    other = ClosingEngine([Reply.of("hi")])
    asyncio.run(use(other))
    assert other.closed == 1
