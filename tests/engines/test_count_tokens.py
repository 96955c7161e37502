"""Counting the tokens of a prompt with the model's own tokenizer, on exactly the prompt that would be sent."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.providers import CannedResponse, ReceivedRequest, generate, json_response, provider, sse
from engines.tools import make_request
from ferrule import ChatMessage, ToolCallRequest
from ferrule.core.media import Media, MediaKind
from ferrule.core.message import Role, Text
from ferrule.engines.chat.engine import ChatOptions
from ferrule.engines.fake import FakeEngine, FakeGenerator
from ferrule.engines.generator import CompletionRequest, ModelFacts
from ferrule.engines.llama_server import llama_server
from ferrule.engines.openai import openai
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.vllm import vllm
from ferrule.errors import DefinitionError, EngineRequestError, UnsupportedError

HELLO = ToolCallRequest(messages=(ChatMessage.user("Hello."),))


class WithoutTokenCount(FakeGenerator):
    async def count_tokens(self, prompt: str) -> int | None:
        return None


def request_under(
    context: int, request: ToolCallRequest, fake: type[FakeGenerator] = FakeGenerator
) -> CompletionRequest:
    """The request to a generator with this context, for which a character is a token."""
    generator = fake(["Hi."], ModelFacts(context=context))
    asyncio.run(TextEngine(generator).generate_with_tools(request))
    return generator.requests[0]


def test_what_is_counted_is_the_prompt_that_would_be_read() -> None:
    generator = FakeGenerator(["Hi."])
    engine = TextEngine(generator)
    request = make_request()
    count = asyncio.run(engine.count_tokens(request))
    asyncio.run(engine.generate_with_tools(request))
    assert count == len(generator.requests[0].prompt)


@pytest.mark.parametrize("engine", [FakeEngine([]), TextEngine(WithoutTokenCount([]))])
def test_an_engine_that_cannot_count_refuses(engine: FakeEngine | TextEngine) -> None:
    with pytest.raises(UnsupportedError, match="does not count tokens"):
        asyncio.run(engine.count_tokens(HELLO))


@given(context=st.integers(200, 5000), budget=st.integers(1, 200_000))
def test_prompt_and_answer_never_have_more_tokens_than_the_context(context: int, budget: int) -> None:
    completion = request_under(context, ToolCallRequest(messages=HELLO.messages, max_tokens=budget))
    assert completion.max_tokens == min(budget, context - len(completion.prompt))


def test_a_budget_is_unchanged_if_the_context_or_the_count_is_unknown() -> None:
    request = ToolCallRequest(messages=HELLO.messages, max_tokens=128_000)
    assert request_under(0, request).max_tokens == 128_000
    assert request_under(500, request, WithoutTokenCount).max_tokens == 128_000


def test_a_prompt_that_fills_the_context_is_refused_before_anything_is_generated() -> None:
    with pytest.raises(DefinitionError, match="together may have only 20") as refusal:
        request_under(20, HELLO)
    assert (refusal.value.code, refusal.value.status) == ("context_length_exceeded", 400)


def test_turns_with_similar_budgets_share_a_grammar() -> None:
    generator = FakeGenerator(["Hi."] * 2, ModelFacts(context=4096))
    engine = TextEngine(generator)
    for question in ("How is Paris?", "How is Paris, and how is Rome?"):
        request = ToolCallRequest(
            messages=(ChatMessage.user(question),), tools=make_request().tools, max_tokens=128_000
        )
        asyncio.run(engine.generate_with_tools(request))
    first, second = generator.requests
    assert first.max_tokens != second.max_tokens
    assert first.grammar is second.grammar


CHUNK = {"choices": [{"index": 0, "text": "Hi.", "finish_reason": "stop"}]}
WRITTEN = sse(CHUNK, done=True)
MISSING = CannedResponse((b'{"detail": "Not Found"}',), status=404)


def test_vllm_is_asked_for_its_context_and_counts_the_rendered_prompt() -> None:
    models = json_response({"data": [{"id": "other", "max_model_len": 9}, {"id": "smol", "max_model_len": 300}]})
    _, requests = generate(
        lambda url: vllm(url, TextOptions(format="hermes", is_constrained=False), model="smol"),
        [models, MISSING, MISSING, MISSING, json_response({"count": 120}), WRITTEN],
        ToolCallRequest(messages=HELLO.messages, max_tokens=128_000),
    )
    assert requests[-2].path == "/tokenize"
    assert requests[-2].body == {"model": "smol", "prompt": requests[-1].body["prompt"], "add_special_tokens": False}
    assert requests[-1].body["max_tokens"] == 180


def test_a_vllm_api_without_a_tokenizer_gets_the_whole_budget() -> None:
    models = json_response({"data": [{"id": "smol", "max_model_len": 300}]})
    _, requests = generate(
        lambda url: vllm(url, TextOptions(format="hermes", is_constrained=False)),
        [models, MISSING, MISSING, MISSING, MISSING, WRITTEN],
        ToolCallRequest(messages=HELLO.messages, max_tokens=128_000),
    )
    assert requests[-1].body["max_tokens"] == 128_000


def test_llama_server_counts_special_tokens_as_special() -> None:
    props = json_response({"default_generation_settings": {"n_ctx": 200}, "chat_template": ""})
    no_word = sse({"choices": [{"index": 0, "text": "no", "finish_reason": "stop"}]}, done=True)
    _, requests = generate(
        lambda url: llama_server(url, TextOptions(format="hermes", is_constrained=False)),
        [
            props,
            no_word,
            no_word,
            json_response({"tokens": []}),
            json_response({"tokens": []}),
            json_response({"tokens": [1] * 50}),
            WRITTEN,
        ],
        ToolCallRequest(messages=HELLO.messages, max_tokens=128_000),
    )
    tokenize_request = [request_sent for request_sent in requests if request_sent.path == "/tokenize"][-1]
    assert tokenize_request.body["parse_special"] is True
    assert requests[-1].body["max_tokens"] == 150


def count_of(
    request: ToolCallRequest, *answers: CannedResponse, api: str = "chat"
) -> tuple[int, list[ReceivedRequest]]:
    """What a server with OpenAI's API counts, and what it was asked."""

    async def scenario() -> tuple[int, list[ReceivedRequest]]:
        async with provider(*answers) as server, openai("m", url=f"{server.url}/v1", api=api) as engine:
            return await engine.count_tokens(request), server.requests

    return asyncio.run(scenario())


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_chat_engine_on_llama_server_counts_the_prompt_as_the_server_renders_it(api: str) -> None:
    answers = (json_response({"prompt": "<|im_start|>Hello."}), json_response({"tokens": [1, 2, 3]}))
    count, requests = count_of(make_request("Hello."), *answers, api=api)
    assert count == 3
    assert [one.path for one in requests] == ["/apply-template", "/tokenize"]
    assert requests[0].body["messages"] == [{"role": "user", "content": "Hello."}]
    assert [one["function"]["name"] for one in requests[0].body["tools"]] == ["get_weather"]
    assert requests[1].body == {"content": "<|im_start|>Hello.", "add_special": True, "parse_special": True}


def test_a_chat_engine_on_vllm_counts_the_messages() -> None:
    count, requests = count_of(make_request("Hello."), MISSING, json_response({"count": 17, "max_model_len": 99}))
    assert count == 17
    assert requests[1].path == "/tokenize"
    assert (requests[1].body["model"], requests[1].body["add_generation_prompt"]) == ("m", True)
    assert requests[1].body["messages"][0]["content"] == "Hello."


@pytest.mark.parametrize(
    "answers",
    [(MISSING, MISSING), (MISSING, json_response({"tokens": 5})), (json_response({"prompt": "Hi."}), MISSING)],
)
def test_a_server_that_cannot_count_is_refused_and_never_guessed(answers: tuple[CannedResponse, ...]) -> None:
    with pytest.raises(UnsupportedError, match="does not count tokens"):
        count_of(HELLO, *answers)


def test_a_conversation_that_the_server_refuses_is_not_called_uncountable() -> None:
    refused = CannedResponse((b'{"error": {"message": "roles must alternate"}}',), status=400)
    with pytest.raises(EngineRequestError):
        count_of(HELLO, refused)


def test_images_are_not_counted_as_text() -> None:
    image = Media(MediaKind.IMAGE, "image/png", data="AAAA")
    request = ToolCallRequest(messages=(ChatMessage(Role.USER, (Text("What is it?"), image)),))

    async def scenario() -> None:
        options = ChatOptions(media=["image"])
        async with provider() as server, openai("m", options, url=f"{server.url}/v1") as engine:
            await engine.count_tokens(request)

    with pytest.raises(UnsupportedError, match="not of images"):
        asyncio.run(scenario())


def test_openai_itself_is_not_asked() -> None:
    with pytest.raises(UnsupportedError, match="does not count tokens"):
        asyncio.run(openai("m", key="k").count_tokens(HELLO))
