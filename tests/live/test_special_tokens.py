"""A format whose markers are special tokens of the model: generated and parsed, in process and over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import ToolChoice
from ferrule.bench.bfcl_requests import load_questions
from ferrule.engines.engine import Engine
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.formats import Format
from ferrule.wire.format import results
from ferrule.wire.node import ARGS, BODY, NAME, calls, free, seq, turn
from ferrule.wire.registry import register
from lab import servers
from live.model import generator

pytestmark = pytest.mark.live

# SmolLM2 has these tokens for other purposes. A model of such a family would be trained to make calls with them.
OPEN, THEN, CLOSE = "<issue_start>", "<issue_comment>", "<issue_closed>"


@pytest.fixture(scope="module")
def family() -> str:
    return register(
        Format(
            name="issues",
            about="calls between special tokens",
            markers=(OPEN,),
            reply=turn(free(), calls(seq(OPEN, NAME, THEN, ARGS, CLOSE), sep="\n", glue="\n")),
            result=results("<jupyter_output>", BODY, "<empty_output>"),
            tokens=(OPEN, THEN, CLOSE),
        )
    ).name


async def expect_calls(engine: Engine, count: int) -> None:
    for question in load_questions(count):
        reply = await engine.generate_with_tools(question.request(ToolChoice.required(), 96))
        (call,) = reply.calls
        assert call.receipt is not None
        if call.receipt.path == "completion+lark":
            # The markers are three tokens, not thirty. GBNF leaves that to the model, and this one spells them out.
            assert call.receipt.tokens + call.receipt.skipped < 30


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("target", ["lark", "gbnf"])
def test_in_process_markers_that_are_special_tokens_are_written_and_read(family: str, target: str, skips: bool) -> None:
    asyncio.run(expect_calls(TextEngine(generator(), TextOptions(format=family, target=target, skips=skips)), 1))


def test_over_http_the_server_reports_which_markers_are_special(family: str) -> None:
    async def over_http(url: str) -> None:
        async with llama_server(url, TextOptions(format=family)) as engine:
            await expect_calls(engine, 2)

    with servers.llama_server(slots=1) as url:
        asyncio.run(over_http(url))
