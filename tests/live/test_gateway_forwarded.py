"""OpenAI's client against `/v1/completions` and `/v1/embeddings`, on llama.cpp's server and on llama.cpp in process."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from ferrule import EngineError, load_engine
from ferrule.core.forward import ForwardRequest
from ferrule.dialects.openai_forward import read_completion, read_embeddings
from ferrule.engines.engine import Engine
from lab.gateway_clients import Clients, clients
from lab.gateway_process import SMOL, gateway_process
from lab.servers import llama_server
from waiting import until

pytestmark = pytest.mark.live
_OP = "live_openai"


def ask(started: Clients, op: str, url: str, **options: Any) -> dict[str, Any]:
    return started.ask("openai", f"{_OP}.{op}", {"url": url, **options})


@pytest.mark.parametrize("is_in_process", [False, True])
def test_openais_client_completes_texts_and_gets_embeddings(is_in_process: bool) -> None:
    with llama_server(embeddings="mean") as server, clients() as started:
        engine = f"{SMOL}&embeddings=mean" if is_in_process else f"llama-server:{server}"
        with gateway_process(engine=f"smol={engine}") as gateway:
            whole, streamed = ask(started, "text_completion", gateway.url), ask(started, "text_chunks", gateway.url)
            assert (whole["error"], streamed["error"]) == (None, None)
            # Greedy: the same text in one piece and in several.
            assert whole["text"] == streamed["text"] != ""
            assert (whole["finish"], streamed["finish"], whole["usage"]) == ("length", "length", 8)
            assert streamed["chunks"] > 2
            answer = ask(started, "embeddings", gateway.url)
            assert answer["error"] is None
            lengths = {len(vector) for vector in answer["vectors"]}
            assert lengths == {576}
            missing = ask(started, "text_completion", gateway.url, more={"prompt": "x" * 60_000})
            assert missing["error"].startswith("BadRequestError: Error code: 400")
            assert "longer than the model's context" in missing["error"]


def test_a_server_without_embeddings_is_refused_with_what_to_do() -> None:
    with llama_server() as server, clients() as started:
        for engine, hint in ((f"llama-server:{server}", "--embeddings"), (SMOL, "embeddings=mean")):
            with gateway_process(engine=f"smol={engine}") as gateway:
                refused = ask(started, "embeddings", gateway.url)["error"]
                assert refused.startswith("BadRequestError: Error code: 400")
                assert "does not have /v1/embeddings" in refused
                assert hint in refused


def test_the_bytes_of_a_real_stream_are_those_of_the_server() -> None:
    """Identifiers, times and timings differ between two answers; everything else is compared as bytes."""
    body = {"prompt": "Once upon", "max_tokens": 6, "temperature": 0.0, "stream": True}

    async def straight(url: str) -> bytes:
        async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/completions", json=body) as answer:
            return await answer.read()

    async def forwarded(engine: Engine, request: ForwardRequest) -> bytes:
        async with engine:
            return b"".join([part.data async for part in engine.forward(request)])

    def shape(data: bytes) -> list[bytes]:
        return [line.partition(b',"created"')[0] for line in data.split(b"\n")]

    with llama_server() as url:
        ours = asyncio.run(forwarded(load_engine(f"llama-server:{url}"), read_completion(body)))
        theirs = asyncio.run(straight(url))
    assert shape(ours) == shape(theirs)
    assert ours.endswith(b"data: [DONE]\n\n")


def test_a_reader_that_stops_frees_the_slot_of_the_model() -> None:
    async def scenario(url: str) -> None:
        async def is_idle() -> bool:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/slots") as answer:
                return not any(slot["is_processing"] for slot in await answer.json())

        idle: list[bool] = []

        async def look() -> None:
            while not (idle and idle[-1]):
                idle.append(await is_idle())

        async with load_engine(f"llama-server:{url}") as engine:
            request = read_completion({"prompt": "Once", "max_tokens": 4000, "stream": True})
            parts = engine.forward(request)
            await anext(parts)
            assert not await is_idle()
            await parts.aclose()
            looking = asyncio.ensure_future(look())
            await until(looking.done)
            assert idle[-1]

    with llama_server(slots=1) as url:
        asyncio.run(scenario(url))


def test_an_engine_in_process_that_is_closed_forwards_nothing() -> None:
    async def scenario() -> None:
        engine = load_engine(f"{SMOL}&embeddings=mean")
        async with engine:
            parts = [part async for part in engine.forward(read_embeddings({"input": "A cat."}))]
            assert b'"object":"embedding"' in b"".join(part.data for part in parts).replace(b" ", b"")
        with pytest.raises(EngineError):
            _ = [part async for part in engine.forward(read_embeddings({"input": "A cat."}))]

    asyncio.run(scenario())
