"""A model that writes its calls in another spelling than its template's, under `auto`: its calls are read."""

from __future__ import annotations

import asyncio
import re

import pytest

from ferrule import Reply, ToolChoice
from ferrule.bench.bfcl_requests import Question, load_questions
from ferrule.bench.validity_count import calls_of, problem_of
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine
from lab.servers import QWEN

pytestmark = pytest.mark.live

# The number of questions in CI, and in the long run.
COUNTS = [4, pytest.param(200, marks=pytest.mark.long)]


def prints_a_call(question: Question, reply: Reply) -> bool:
    """Whether the text holds a call of an offered tool that was not read."""
    return any(re.search(rf'"name"\s*:\s*"{re.escape(tool.name)}"', reply.text) for tool in question.tools)


@pytest.mark.parametrize("count", COUNTS)
def test_calls_that_the_model_prints_are_read(count: int) -> None:
    questions = load_questions(count, ("simple_python", "multiple"))
    engine = TextEngine(LlamaGenerator(QWEN, threads=1, slots=1, context=4096))

    async def ask() -> list[Reply]:
        requests = [question.request(ToolChoice.auto(), max_tokens=200) for question in questions]
        replies = [await engine.generate_with_tools(request) for request in requests]
        await engine.close()
        return replies

    answered = list(zip(questions, asyncio.run(ask()), strict=True))
    printed = [question.id for question, reply in answered if prints_a_call(question, reply)]
    receipts = [call.receipt for _, reply in answered for call in reply.calls]
    problems = [problem_of(question, *call) for question, reply in answered for call in calls_of(reply)]
    assert len(printed) <= count // 50
    assert any(receipt and receipt.drifted == "hermes -> fenced_json" for receipt in receipts)
    assert not [problem for problem in problems if problem]
