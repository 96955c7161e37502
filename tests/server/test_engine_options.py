"""Options that only some engines have are sent to those, and reported as ignored for all others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from ferrule import DefinitionError, load_engine
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.engine_options import ENGINE_OPTIONS, read_chat_options, read_responses_options
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.dialects.frames.server_frames import StartedFrame
from ferrule.dialects.openai_chat.request_encoder import request_body as chat_body
from ferrule.dialects.openai_forward import read_completion
from ferrule.dialects.openai_responses.request_encoder import request_body as responses_body
from ferrule.engines.engine import Engine
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.text.engine import TextEngine
from ferrule.server.config.config import Config, EngineConfig, ModelConfig
from lab.loopback_server import loopback_server
from server.client import ClientResponse, gateway_of, scripted_engine
from server.failing_upstream import closed_url
from server.websocket_client import connect

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
OPTIONS: dict[str, Any] = {
    "frequency_penalty": 0.5,
    "logit_bias": {"17": -100},
    "prediction": {"type": "content", "content": "x = 1"},
    "presence_penalty": 0.25,
    "reasoning_effort": "high",
    "service_tier": "flex",
    "verbosity": "low",
}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}], **OPTIONS},
    RESPONSES: {
        "input": "hi",
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"verbosity": "low"},
        "service_tier": "flex",
    },
}
REPORTED = {
    CHAT: {"frequency_penalty", "logit_bias", "prediction", "presence_penalty", "reasoning_effort", "verbosity"},
    RESPONSES: {"reasoning.effort", "text.verbosity"},
}


@dataclass(slots=True)
class Upstream:
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@contextmanager
def upstream_of() -> Generator[Upstream]:
    upstream = Upstream()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            upstream.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            chunk = {"choices": [{"index": 0, "delta": {"content": "well"}, "finish_reason": "stop"}]}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    with loopback_server(Handler) as url:
        upstream.url = f"{url}/v1"
        yield upstream


def ask(path: str, *engines: Engine, config: Config | None = None, **fields: Any) -> ClientResponse:
    async def scenario() -> ClientResponse:
        async with gateway_of(*engines, config=config) as client:
            answer = await client.post(path, {"model": "e0", **BODIES[path], **fields})
            assert answer.status == 200, answer.body
            return answer

    return asyncio.run(scenario())


def reported(answer: ClientResponse) -> set[str]:
    return set(filter(None, answer.headers.get("ferrule-ignored", "").split(", ")))


def test_every_option_is_tried_here() -> None:
    assert set(OPTIONS) == set(ENGINE_OPTIONS)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_an_engine_that_has_them_gets_them_as_the_client_wrote_them(path: str, stream: bool) -> None:
    with upstream_of() as upstream:
        engine = load_engine(f"openai:m?takes={','.join(OPTIONS)}", url=upstream.url)
        answer = ask(path, engine, stream=stream)
    wanted = OPTIONS if path == CHAT else {"reasoning_effort": "high", "verbosity": "low", "service_tier": "flex"}
    assert {name: upstream.bodies[0].get(name) for name in wanted} == wanted
    assert reported(answer) == set()


@pytest.mark.parametrize("path", BODIES)
def test_an_engine_that_has_one_gets_that_one_and_the_others_are_reported(path: str) -> None:
    with upstream_of() as upstream:
        answer = ask(path, load_engine("openai:m?takes=reasoning_effort", url=upstream.url))
    assert set(OPTIONS) & upstream.bodies[0].keys() == {"reasoning_effort"}
    assert reported(answer) == REPORTED[path] - {"reasoning_effort", "reasoning.effort"}


@pytest.mark.parametrize("path", BODIES)
def test_any_other_engine_gets_none_and_all_are_reported(path: str) -> None:
    assert reported(ask(path, scripted_engine("well"))) == REPORTED[path]
    with upstream_of() as upstream:
        assert reported(ask(path, load_engine("openai:m", url=upstream.url))) == REPORTED[path]
    assert not set(OPTIONS) & upstream.bodies[0].keys()


def test_over_a_websocket_what_the_engine_has_is_sent_and_only_the_rest_reported() -> None:
    async def scenario(engine: Engine) -> list[StartedFrame]:
        async with gateway_of(engine) as client, connect(client) as socket:
            await socket.send(AskFrame(BODIES[CHAT]))
            await socket.to_end()
            return socket.of(StartedFrame)

    with upstream_of() as upstream:
        started = asyncio.run(scenario(load_engine("openai:m?takes=reasoning_effort", url=upstream.url)))
    assert set(OPTIONS) & upstream.bodies[0].keys() == {"reasoning_effort"}
    assert set(started[0].ignored or ()) >= REPORTED[CHAT] - {"reasoning_effort"}
    assert "reasoning_effort" not in (started[0].ignored or ())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [False, True])
def test_a_response_says_what_the_engine_was_sent(store: bool, stream: bool) -> None:
    def body(takes: str) -> dict[str, Any]:
        with upstream_of() as upstream:
            answer = ask(RESPONSES, load_engine(f"openai:m{takes}", url=upstream.url), store=store, stream=stream)
        return answer.events()[-1]["response"] if stream else answer.json()

    sent = body("?takes=reasoning_effort,service_tier,verbosity")
    assert (sent["reasoning"]["effort"], sent["service_tier"]) == ("high", "flex")
    assert sent["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    # An engine that gets none of them: nothing of the response before is left.
    other = body("")
    assert (other["reasoning"]["effort"], other["service_tier"]) == (None, "default")
    assert other["text"] == {"format": {"type": "text"}}


def test_probabilities_of_tokens_are_never_sent_and_always_reported() -> None:
    with upstream_of() as upstream:
        engine = load_engine(f"openai:m?takes={','.join(OPTIONS)}", url=upstream.url)
        answer = ask(CHAT, engine, logprobs=True, top_logprobs=2)
    assert reported(answer) == {"logprobs", "top_logprobs"}
    assert not {"logprobs", "top_logprobs"} & upstream.bodies[0].keys()


def test_the_engine_that_takes_a_request_over_is_not_sent_what_it_does_not_have() -> None:
    config = Config(
        engines=tuple(EngineConfig(name=name, use=name) for name in ("e0", "e1")),
        models=(ModelConfig(name="m", engines=("e0", "e1")),),
    )
    with upstream_of() as upstream:
        down = load_engine("openai:m?takes=verbosity,reasoning_effort&tries=1", url=f"{closed_url()}/v1")
        other = load_engine("openai:m?takes=verbosity", url=upstream.url)
        answer = ask(CHAT, down, other, config=config, model="m")
    assert set(OPTIONS) & upstream.bodies[0].keys() == {"verbosity"}
    notes = [one["message"] for one in answer.json()["ferrule"]["diagnostics"]]
    assert any("does not support reasoning_effort" in note for note in notes)


@pytest.mark.parametrize(
    "field, value",
    [("reasoning_effort", 1), ("logit_bias", {"1": "x"}), ("logit_bias", [1]), ("prediction", "x"), ("verbosity", {})],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(DefinitionError) as refusal:
        read_chat_options({field: value})
    assert refusal.value.param.startswith(field)


@pytest.mark.parametrize(
    "field, value",
    [
        ("frequency_penalty", 2.5),
        ("presence_penalty", -3),
        ("logit_bias", {"1": 1, "2": 101}),
        ("logit_bias", {"1": True}),
    ],
)
def test_a_value_out_of_bounds_is_refused_as_in_text_completions(field: str, value: Any) -> None:
    for read in (read_chat_options, read_completion):
        with pytest.raises(DefinitionError) as refusal:
            read({"prompt": "p", field: value})
        assert refusal.value.param.startswith(field)


def test_what_is_null_or_missing_is_no_option() -> None:
    assert read_chat_options(dict.fromkeys(OPTIONS)) == {}
    assert read_responses_options({"reasoning": None, "text": {}, "service_tier": None}) == {}


def test_both_encoders_write_what_both_readers_read() -> None:
    request = ToolCallRequest(messages="hi", engine_options=OPTIONS)
    assert read_chat_options(chat_body(request, model="m", stream=False)) == OPTIONS
    options = {name: OPTIONS[name] for name in ("reasoning_effort", "service_tier", "verbosity")}
    schema = ToolCallRequest(messages="hi", engine_options=options, response_schema={"type": "object"})
    body = responses_body(schema, model="m", stream=False)
    assert read_responses_options(body) == options
    assert body["text"]["format"]["type"] == "json_schema"


def test_an_engine_of_text_says_that_it_has_none() -> None:
    request = ToolCallRequest(messages="hi", engine_options={"verbosity": "low"}, max_tokens=9)
    reply = asyncio.run(TextEngine(FakeGenerator(["well"])).generate_with_tools(request))
    assert [(one.code, "verbosity" in one.message) for one in reply.diagnostics if one.code == "not_sent"] == [
        ("not_sent", True)
    ]


def test_an_unknown_option_is_refused_when_the_engine_is_made() -> None:
    with pytest.raises(DefinitionError, match="unknown options: logprobs"):
        load_engine("openai:m?takes=logprobs", url="http://127.0.0.1:1/v1")


def test_a_stored_response_keeps_them_for_the_process_that_takes_it_over() -> None:
    with upstream_of() as upstream:
        engine = load_engine(f"openai:m?takes={','.join(OPTIONS)}", url=upstream.url)
        ask(RESPONSES, engine, store=True)
        assert upstream.bodies[0]["reasoning_effort"] == "high"
