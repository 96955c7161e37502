"""Chat engines on llama.cpp's own server, with three providers' APIs.

The model is small, and the server lets it write text where a call is required. So the tests do not show that calls are
made, but that every call is checked and every missing call is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace

import pytest

from ferrule import (
    ArgumentsDelta,
    CallEnd,
    ChatMessage,
    Event,
    FinishReason,
    Reply,
    TextDelta,
    ToolCallRequest,
    ToolChoice,
    ToolDefinition,
    fold,
)
from ferrule.core.call import How
from ferrule.engines.anthropic import anthropic
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.openai import openai
from ferrule.errors import NoValidCallError
from ferrule.schema.checker import checker_for
from lab.servers import llama_server

pytestmark = pytest.mark.live

ADD = (
    ToolDefinition.build("add")
    .description("Adds two small numbers.")
    .parameter("a", {"type": "integer"}, required=True)
    .parameter("b", {"type": "integer", "maximum": 5}, required=True)
    .done()
)
MULTIPLY = ToolDefinition.build("multiply").parameter("a", {"type": "integer"}, required=True).done()
MAKERS: dict[str, Callable[[str, ChatOptions], ChatEngine]] = {
    "chat": lambda url, options: openai("smol", options, url=f"{url}/v1"),
    "responses": lambda url, options: openai("smol", options, url=f"{url}/v1", api="responses"),
    "messages": lambda url, options: anthropic("smol", options, url=url),
}
apis = pytest.mark.parametrize("api", sorted(MAKERS))
both_ways = pytest.mark.parametrize("is_streamed", [True, False])


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with llama_server() as address:
        yield address


def repeat_request(arguments: str) -> ToolCallRequest:
    """A request to copy a call."""
    text = f'Repeat exactly this text: <tool_call>\n{{"name": "add", "arguments": {arguments}}}\n</tool_call>'
    return make_request(text)


def make_request(text: str, choice: ToolChoice | None = None) -> ToolCallRequest:
    return ToolCallRequest(
        messages=(ChatMessage.user(text),),
        tools=(ADD, MULTIPLY),
        tool_choice=choice or ToolChoice.auto(),
        max_tokens=100,
        temperature=0.0,
    )


def events(url: str, api: str, request: ToolCallRequest, options: ChatOptions | None = None) -> list[Event]:
    async def work() -> list[Event]:
        async with MAKERS[api](url, options or ChatOptions()) as engine:
            return [event async for event in engine.stream(request)]

    return asyncio.run(work())


def reply_of(url: str, api: str, request: ToolCallRequest, options: ChatOptions | None = None) -> Reply:
    return fold(events(url, api, request, options))


@apis
@both_ways
def test_a_call_comes_out_checked_and_with_a_receipt(url: str, api: str, is_streamed: bool) -> None:
    reply = reply_of(url, api, repeat_request('{"a": 1, "b": 2}'), ChatOptions(is_streamed=is_streamed))
    assert [call.arguments for call in reply.calls] == [{"a": 1, "b": 2}]
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.path) == (How.VALIDATED, api)
    assert (reply.finish, reply.diagnostics) == (FinishReason.TOOL_CALLS, ())
    assert reply.usage is not None
    assert reply.usage.completion_tokens > 0


@apis
@both_ways
@pytest.mark.parametrize("arguments", ['{"a": 1, "b": 99}', '{"a": 1, "b": ', "[]", "", "null"])
def test_forwarded_calls_are_valid_and_malformed_ones_never_become_an_empty_object(
    url: str, api: str, is_streamed: bool, arguments: str
) -> None:
    reply = reply_of(url, api, repeat_request(arguments), ChatOptions(is_streamed=is_streamed))
    for call in reply.calls:
        assert call.name == "add"
        assert checker_for(ADD.parameters).faults_of_text(call.function.arguments) == ()
    assert all(call.function.arguments.strip() != "{}" for call in (*reply.calls, *reply.incomplete))
    assert len(reply.diagnostics) >= len(reply.incomplete)


@apis
def test_a_required_call_is_made_or_its_absence_is_an_error(url: str, api: str) -> None:
    for choice in (ToolChoice.required(), ToolChoice.one("add")):
        try:
            reply = reply_of(url, api, make_request("Add 1 and 2.", choice))
        except NoValidCallError:
            continue
        assert bool(reply.calls) or reply.finish is FinishReason.LENGTH


@apis
def test_an_answer_that_must_fit_a_schema_fits_or_is_reported(url: str, api: str) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    request = replace(make_request("Name a city."), tools=(), response_schema=schema)
    reply = reply_of(url, api, request)
    fits = not checker_for(schema).faults_of_text(reply.text)
    assert ("invalid_answer" in [diagnostic.code for diagnostic in reply.diagnostics]) is not fits


@apis
def test_text_streams(url: str, api: str) -> None:
    received = events(url, api, replace(make_request("Say hello."), tools=()))
    assert len([event for event in received if isinstance(event, TextDelta)]) > 3


@apis
def test_without_repairs_arguments_stream_before_the_call_is_over(url: str, api: str) -> None:
    received = events(url, api, repeat_request('{"a": 1, "b": 2}'), ChatOptions(repairs=0))
    end = next(at for at, event in enumerate(received) if isinstance(event, CallEnd))
    assert len([event for event in received[:end] if isinstance(event, ArgumentsDelta)]) > 2


def test_leaving_the_stream_early_frees_the_server(url: str) -> None:
    async def work() -> None:
        async with MAKERS["chat"](url, ChatOptions()) as engine:
            # More than the server has slots: it would have none left if it kept generating for closed streams.
            for _ in range(8):
                stream = engine.stream(replace(make_request("Tell a long story."), tools=(), max_tokens=2_000))
                await anext(stream)
                await stream.aclose()
            reply = await engine.generate_with_tools(repeat_request('{"a": 1, "b": 2}'))
            assert len(reply.calls) == 1

    asyncio.run(asyncio.wait_for(work(), 60))


def test_count_tokens_is_what_the_answer_says_that_its_prompt_had(url: str) -> None:
    request = ToolCallRequest(messages=(ChatMessage.user("What is two and three?"),), tools=(ADD,), max_tokens=1)

    async def story() -> tuple[int, int]:
        async with openai("smol", url=f"{url}/v1") as engine:
            reply = await engine.generate_with_tools(request)
            assert reply.usage is not None
            return await engine.count_tokens(request), reply.usage.prompt_tokens

    counted, read = asyncio.run(story())
    assert counted == read > 50
