"""Counting the tokens of a prompt: by the model's own tokenizer, on the prompt that would be read, or not at all."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.providers import Answer, generated, sse, whole
from engines.tools import asked
from ferrule import ChatMessage, ToolCallRequest
from ferrule.engines.fake import FakeEngine, FakeGenerator
from ferrule.engines.generator import ModelFacts, Writing
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.vllm import vllm
from ferrule.errors import DefinitionError, UnsupportedError

HELLO = ToolCallRequest(messages=(ChatMessage.user("Hello."),))


class Uncounting(FakeGenerator):
    async def count(self, prompt: str) -> int | None:
        return None


def written_under(context: int, request: ToolCallRequest, fake: type[FakeGenerator] = FakeGenerator) -> Writing:
    """What a generator with so small a context was asked. A character is a token to it."""
    generator = fake(["Hi."], ModelFacts(context=context))
    asyncio.run(TextEngine(generator).generate_with_tools(request))
    return generator.asked[0]


def test_what_is_counted_is_the_prompt_that_would_be_read() -> None:
    generator = FakeGenerator(["Hi."])
    engine = TextEngine(generator)
    request = asked()
    counted = asyncio.run(engine.count_tokens(request))
    asyncio.run(engine.generate_with_tools(request))
    assert counted == len(generator.asked[0].prompt)


@pytest.mark.parametrize("engine", [FakeEngine([]), TextEngine(Uncounting([]))])
def test_an_engine_that_cannot_count_refuses(engine: FakeEngine | TextEngine) -> None:
    with pytest.raises(UnsupportedError, match="does not count tokens"):
        asyncio.run(engine.count_tokens(HELLO))


@given(context=st.integers(200, 5000), budget=st.integers(1, 200_000))
def test_prompt_and_answer_never_have_more_tokens_than_the_context(context: int, budget: int) -> None:
    writing = written_under(context, ToolCallRequest(messages=HELLO.messages, max_tokens=budget))
    assert writing.max_tokens == min(budget, context - len(writing.prompt))


def test_a_budget_is_left_alone_where_the_context_is_not_known_or_nobody_can_count() -> None:
    request = ToolCallRequest(messages=HELLO.messages, max_tokens=128_000)
    assert written_under(0, request).max_tokens == 128_000
    assert written_under(500, request, Uncounting).max_tokens == 128_000


def test_a_prompt_that_leaves_no_room_is_refused_before_anything_is_generated() -> None:
    with pytest.raises(DefinitionError, match="the model takes 20 with its answer") as refusal:
        written_under(20, HELLO)
    assert (refusal.value.code, refusal.value.status) == ("context_length_exceeded", 400)


def test_turns_that_leave_nearly_the_same_room_share_a_rule() -> None:
    generator = FakeGenerator(["Hi."] * 2, ModelFacts(context=4096))
    engine = TextEngine(generator)
    for question in ("How is Paris?", "How is Paris, and how is Rome?"):
        request = ToolCallRequest(messages=(ChatMessage.user(question),), tools=asked().tools, max_tokens=128_000)
        asyncio.run(engine.generate_with_tools(request))
    first, second = generator.asked
    assert first.max_tokens != second.max_tokens
    assert first.grammar is second.grammar


CHUNK = {"choices": [{"index": 0, "text": "Hi.", "finish_reason": "stop"}]}
WRITTEN = sse(CHUNK, done=True)
MISSING = Answer((b'{"detail": "Not Found"}',), status=404)


def test_vllm_is_asked_for_its_context_and_counts_the_rendered_prompt() -> None:
    listed = whole({"data": [{"id": "other", "max_model_len": 9}, {"id": "smol", "max_model_len": 300}]})
    _, sent = generated(
        lambda url: vllm(url, TextOptions(format="hermes", is_constrained=False), model="smol"),
        [listed, MISSING, MISSING, MISSING, whole({"count": 120}), WRITTEN],
        ToolCallRequest(messages=HELLO.messages, max_tokens=128_000),
    )
    assert sent[-2].path == "/tokenize"
    assert sent[-2].body == {"model": "smol", "prompt": sent[-1].body["prompt"], "add_special_tokens": False}
    assert sent[-1].body["max_tokens"] == 180


def test_what_serves_vllms_api_without_a_tokenizer_is_asked_for_all_of_the_budget() -> None:
    listed = whole({"data": [{"id": "smol", "max_model_len": 300}]})
    _, sent = generated(
        lambda url: vllm(url, TextOptions(format="hermes", is_constrained=False)),
        [listed, MISSING, MISSING, MISSING, MISSING, WRITTEN],
        ToolCallRequest(messages=HELLO.messages, max_tokens=128_000),
    )
    assert sent[-1].body["max_tokens"] == 128_000


def test_llama_server_counts_with_marks_as_marks() -> None:
    props = whole({"default_generation_settings": {"n_ctx": 200}, "chat_template": ""})
    silent = sse({"choices": [{"index": 0, "text": "no", "finish_reason": "stop"}]}, done=True)
    _, sent = generated(
        lambda url: llama_server(url, TextOptions(format="hermes", is_constrained=False)),
        [props, silent, silent, whole({"tokens": []}), whole({"tokens": []}), whole({"tokens": [1] * 50}), WRITTEN],
        ToolCallRequest(messages=HELLO.messages, max_tokens=128_000),
    )
    counting = [one for one in sent if one.path == "/tokenize"][-1]
    assert counting.body["parse_special"] is True
    assert sent[-1].body["max_tokens"] == 150
