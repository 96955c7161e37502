"""What a request asks for and nobody carries out stands in a header, in receipts, in metrics and in the log."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.server.observability.logs import Log
from server.client import Client, ClientResponse, gateway_of, scripted_engine
from server.websocket_client import connect

USER = [{"role": "user", "content": "hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": USER, "logprobs": True, "zz": 1},
    "/v1/messages": {"messages": USER, "max_tokens": 9, "thinking": {"type": "adaptive"}, "zz": 1},
    "/v1/responses": {"input": "hi", "text": {"verbosity": "low"}, "zz": 1},
}
NAMES = {"/v1/chat/completions": "logprobs", "/v1/messages": "thinking", "/v1/responses": "text.verbosity"}


async def ask(client: Client, path: str, **fields: Any) -> ClientResponse:
    answer = await client.post(path, {"model": "m", **BODIES[path], **fields})
    assert answer.status == 200, answer.body
    return answer


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [False, True])
def test_a_header_a_metric_and_the_log_name_it(path: str, stream: bool, store: bool) -> None:
    lines: list[str] = []

    async def scenario() -> tuple[ClientResponse, Any]:
        async with gateway_of(scripted_engine("well")) as client:
            client.gateway.telemetry.log = Log(lines.append)
            answer = await ask(client, path, stream=stream, **({"store": store} if path == "/v1/responses" else {}))
            return answer, client.gateway.telemetry.counts.values["ferrule_ignored_fields"]

    answer, counts = asyncio.run(scenario())
    assert set(answer.headers["ferrule-ignored"].split(", ")) == {NAMES[path], "zz"}
    # What a client invents is neither counted by its name nor logged.
    assert counts == {(NAMES[path],): 1, ("other",): 1}
    logged = [json.loads(line) for line in lines if '"request"' in line]
    assert set(logged[-1]["ignored"]) == {NAMES[path], "other"}


def test_an_answer_to_a_plain_request_has_no_such_header() -> None:
    async def scenario() -> ClientResponse:
        async with gateway_of(scripted_engine("well")) as client:
            return await client.post("/v1/chat/completions", {"model": "m", "messages": USER})

    assert "ferrule-ignored" not in asyncio.run(scenario()).headers


def test_a_turn_over_a_websocket_names_it_in_its_first_frame() -> None:
    async def scenario() -> out.StartedFrame:
        async with gateway_of(scripted_engine("well")) as client, connect(client) as socket:
            await socket.send(AskFrame({"model": "m", "messages": USER, "logprobs": True}))
            await socket.to_end()
            return socket.of(out.StartedFrame)[0]

    assert asyncio.run(scenario()).ignored == ("logprobs",)
