"""A family whose marks are special tokens of the model: held, and read, in process and over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import Format, ToolChoice
from ferrule.bench.bfcl_requests import questions
from ferrule.engines.engine import Engine
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.wire.format import results
from ferrule.wire.node import ARGS, BODY, NAME, calls, free, seq, turn
from ferrule.wire.registry import register
from lab import servers
from live.model import generator

pytestmark = pytest.mark.live

# Tokens that SmolLM2 has for other things; a model of such a family would have been trained to call with them.
OPEN, THEN, CLOSE = "<issue_start>", "<issue_comment>", "<issue_closed>"


@pytest.fixture(scope="module")
def family() -> str:
    return register(
        Format(
            name="issues",
            about="calls between special tokens",
            marks=(OPEN,),
            reply=turn(free(), calls(seq(OPEN, NAME, THEN, ARGS, CLOSE), sep="\n", glue="\n")),
            result=results("<jupyter_output>", BODY, "<empty_output>"),
            tokens=(OPEN, THEN, CLOSE),
        )
    ).name


async def called(engine: Engine, count: int) -> None:
    for question in questions(count):
        reply = await engine.generate_with_tools(question.request(ToolChoice.required(), 96))
        (call,) = reply.calls
        assert call.receipt is not None
        if call.receipt.path == "completion+lark":
            # The marks are three tokens and not thirty. GBNF leaves that to the model, and this one spells them.
            assert call.receipt.tokens + call.receipt.skipped < 30


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("target", ["lark", "gbnf"])
def test_in_process_marks_that_are_special_tokens_are_written_and_read(family: str, target: str, skips: bool) -> None:
    asyncio.run(called(TextEngine(generator(), TextOptions(format=family, target=target, skips=skips)), 1))


def test_over_http_the_server_is_asked_which_marks_are_special(family: str) -> None:
    async def over_http(url: str) -> None:
        async with llama_server(url, TextOptions(format=family)) as engine:
            await called(engine, 2)

    with servers.llama_server(slots=1) as url:
        asyncio.run(over_http(url))
