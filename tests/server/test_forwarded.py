"""`/v1/completions` and `/v1/embeddings` pass through to engines that have them, behind keys, limits and telemetry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

import pytest

from ferrule import load_engine
from ferrule.core.event import Event as ReplyEvent
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.fake import FakeEngine
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits, ModelConfig
from ferrule.server.observability.logs import Log
from lab.loopback_server import loopback_server
from server.client import ClientResponse, gateway_of, scripted_engine
from server.failing_upstream import ENGINE_KEY, SECRET, WORDS, closed_url, failing_upstream
from server.keys import bearer, config_with_keys, key

COMPLETIONS, EMBEDDINGS = "/v1/completions", "/v1/embeddings"
BODIES: dict[str, dict[str, Any]] = {COMPLETIONS: {"prompt": "Once"}, EMBEDDINGS: {"input": "Once"}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
# Spaces, order and escapes that no encoder of ours writes.
STREAM = (
    b': hi\n\ndata:{"choices":[{"text":"\\u00e9 ","index":0,"finish_reason":null}]}\n\n'
    b'data: {"choices" : [{"index": 0, "text": "", "finish_reason":"stop"}], "usage":'
    + json.dumps(USAGE).encode()
    + b"}\n\ndata: [DONE]\n\n"
)
WHOLE = b'{ "choices": [{"text": "\\u00e9", "finish_reason": "stop"}], "usage": ' + json.dumps(USAGE).encode() + b"}\n"
VECTORS = b'{"object":"list","data":[{"embedding":[0.10,1e-3],"index":0}],"usage":{"prompt_tokens":3}}'


@dataclass(slots=True)
class Upstream:
    """An engine with OpenAI's paths. `release` lets the second half of its streams go."""

    url: str = ""
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    release: Event = field(default_factory=Event)
    has_left: Event = field(default_factory=Event)
    error: tuple[int, bytes] | None = None

    def engine(self, name: str = "openai:the-engines-name") -> Engine:
        return load_engine(name, url=f"{self.url}/v1", key=ENGINE_KEY)


@contextmanager
def upstream_of(*, is_slow: bool = False) -> Generator[Upstream]:
    upstream = Upstream()
    if not is_slow:
        upstream.release.set()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            upstream.requests.append((self.path, body))
            status, answer = upstream.error or (200, VECTORS if self.path.endswith("embeddings") else WHOLE)
            is_stream = body.get("stream") and status == 200
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
            self.end_headers()
            if not is_stream:
                self.wfile.write(answer)
                return
            half = STREAM.index(b"data: {")
            self.wfile.write(STREAM[:half])
            self.wfile.flush()
            upstream.release.wait()
            try:
                for byte in STREAM[half:]:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
            except OSError:
                upstream.has_left.set()

    with loopback_server(Handler) as url:
        upstream.url = url
        try:
            yield upstream
        finally:
            upstream.release.set()


def ask(
    path: str,
    *engines: Engine,
    config: Config | None = None,
    headers: dict[str, str] | None = None,
    **fields: Any,
) -> ClientResponse:
    async def scenario() -> ClientResponse:
        async with gateway_of(*engines, config=config) as client:
            return await client.post(path, {"model": "e0", **BODIES[path], **fields}, headers)

    return asyncio.run(scenario())


def test_a_whole_answer_is_the_engines_byte_for_byte_and_the_engine_gets_its_own_models_name() -> None:
    with upstream_of() as upstream:
        whole = ask(COMPLETIONS, upstream.engine(), max_tokens=5, stop="x")
        vectors = ask(EMBEDDINGS, upstream.engine(), encoding_format="float")
    assert (whole.status, whole.body) == (200, WHOLE)
    assert (vectors.status, vectors.body) == (200, VECTORS)
    assert whole.headers["content-type"] == "application/json"
    model = "the-engines-name"
    assert upstream.requests == [
        ("/v1/completions", {"prompt": "Once", "max_tokens": 5, "stop": ["x"], "model": model}),
        ("/v1/embeddings", {"input": "Once", "encoding_format": "float", "model": model}),
    ]


def test_a_stream_is_the_engines_byte_for_byte() -> None:
    with upstream_of() as upstream:
        answer = ask(COMPLETIONS, upstream.engine(), stream=True)
    assert (answer.status, answer.body) == (200, STREAM)
    assert answer.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("path", BODIES)
def test_what_is_not_forwarded_is_named_in_a_header(path: str) -> None:
    with upstream_of() as upstream:
        answer = ask(path, upstream.engine(), n_predict=-1, zz=1)
    assert set(answer.headers["ferrule-ignored"].split(", ")) == {"n_predict", "zz"}
    assert not {"n_predict", "zz"} & upstream.requests[0][1].keys()


def test_requests_are_counted_and_logged_with_what_they_cost() -> None:
    lines: list[str] = []
    counts: list[Any] = []

    async def scenario(engine: Engine) -> None:
        config = Config(engines=(EngineConfig(name="e0", use="e0", input_price=1.0, output_price=1.0),))
        async with gateway_of(engine, config=config) as client:
            client.gateway.telemetry.log = Log(lines.append)
            for fields in ({}, {"stream": True}):
                await client.post(COMPLETIONS, {"prompt": "Once", **fields})
            await client.post(EMBEDDINGS, BODIES[EMBEDDINGS])
            counts.append(client.gateway.telemetry.counts.values)

    with upstream_of() as upstream:
        asyncio.run(scenario(upstream.engine()))
    assert counts[0]["ferrule_tokens"] == {("e0", "prompt"): 9, ("e0", "completion"): 4}
    assert counts[0]["ferrule_requests"] == {
        (COMPLETIONS, "e0", "ok"): 2,
        (EMBEDDINGS, "e0", "ok"): 1,
    }
    logged = [json.loads(line) for line in lines]
    requests = [one for one in logged if one["event"] == "request"]
    assert [(one["api"], one["model"], one["prompt_tokens"], one["outcome"]) for one in requests] == [
        (COMPLETIONS, "e0", 3, "ok"),
        (COMPLETIONS, "e0", 3, "ok"),
        (EMBEDDINGS, "e0", 3, "ok"),
    ]
    assert all("Once" not in line for line in lines)


def test_a_client_that_leaves_stops_the_engine() -> None:
    async def scenario(upstream: Upstream) -> None:
        async with gateway_of(upstream.engine()) as client:
            left = asyncio.Event()
            body = {**BODIES[COMPLETIONS], "stream": True}
            asking = asyncio.ensure_future(client.request("POST", COMPLETIONS, body, disconnect=left))
            while not upstream.requests:
                await asyncio.sleep(0.01)
            left.set()
            await asking
            assert not client.gateway.telemetry.answers
            upstream.release.set()
            assert await asyncio.to_thread(upstream.has_left.wait, 30)

    with upstream_of(is_slow=True) as upstream:
        asyncio.run(scenario(upstream))


@pytest.mark.parametrize("path", BODIES)
def test_keys_models_and_limits_hold_as_for_conversations(path: str) -> None:
    config = config_with_keys(key("ann", "fk_ann", models=("other",)), key("bob", "fk_bob"))
    with upstream_of() as upstream:
        engine = upstream.engine()
        assert ask(path, engine, config=config).status == 401
        refused = ask(path, engine, config=config, headers=bearer("fk_ann"))
        assert (refused.status, refused.json()["error"]["code"]) == (403, "token_scope_insufficient")
        assert ask(path, engine, config=config, headers=bearer("fk_bob")).status == 200
        missing = ask(path, engine, engine, model="nobody")
        assert (missing.status, missing.json()["error"]["code"]) == (404, "model_not_found")
        assert missing.json()["error"]["param"] == "model"
        long = ask(path, engine, config=config_with_keys(limits=GatewayLimits(body_bytes=20)))
        assert (long.status, long.json()["error"]["code"]) == (413, "request_too_large")
    assert len(upstream.requests) == 1


def test_all_texts_of_one_request_share_the_token_budget() -> None:
    config = config_with_keys(limits=GatewayLimits(most_tokens=100))
    with upstream_of() as upstream:
        more: list[dict[str, Any]] = [{"n": 11}, {"best_of": 11}, {"prompt": ["x"] * 11}, {"prompt": [[1]] * 6, "n": 2}]
        for fields in more:
            refused = ask(COMPLETIONS, upstream.engine(), config=config, max_tokens=10, **fields)
            assert (refused.status, refused.json()["error"]["code"]) == (413, "request_too_large"), fields
        assert ask(COMPLETIONS, upstream.engine(), config=config, max_tokens=101).status == 400
        assert ask(COMPLETIONS, upstream.engine(), config=config, max_tokens=10, n=10).status == 200
    assert len(upstream.requests) == 1


class _ChatOnly(Engine):
    def __init__(self) -> None:
        self.traits = Traits(name="chat-only")

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[ReplyEvent, None]:
        raise NotImplementedError
        yield

    async def close(self) -> None:
        return


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_without_the_api_is_named_with_a_hint(stream: bool) -> None:
    for engine in (scripted_engine("x"), _ChatOnly()):
        refused = ask(COMPLETIONS, engine, stream=stream)
        error = refused.json()["error"]
        assert (refused.status, error["code"]) == (400, "unsupported_api")
        assert "/v1/completions" in error["message"]
        assert "/v1/models" in error["message"]


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize("path", BODIES)
def test_an_engine_that_says_that_it_has_no_such_api_is_refused_alike(status: int, path: str) -> None:
    with upstream_of() as upstream:
        upstream.error = status, json.dumps({"error": {"message": WORDS}}).encode()
        refused = ask(path, upstream.engine())
    assert (refused.status, refused.json()["error"]["code"]) == (400, "unsupported_api")
    assert WORDS not in refused.body.decode()


def test_another_engine_of_the_model_takes_what_one_does_not_have_or_fails() -> None:
    two = Config(
        engines=tuple(EngineConfig(name=name, use=name) for name in ("e0", "e1")),
        models=(ModelConfig(name="m", engines=("e0", "e1")),),
    )
    down = load_engine("openai:m", url=closed_url(), tries=1)
    with upstream_of() as upstream:
        for first in (scripted_engine("x"), down):
            answer = ask(COMPLETIONS, first, upstream.engine(), config=two, model="m", stream=True)
            assert (answer.status, answer.body) == (200, STREAM)


STATUSES = {
    **{"bad": 400, "unauthorized": 502, "missing": 400, "large": 400, "limited": 429, "broken": 502, "overloaded": 503},
    **{"long": 400, "cut_at_once": 502, "reported": 502, "garbage": 502},
}


@pytest.mark.parametrize("kind", STATUSES)
def test_what_an_engine_fails_with_has_a_status_and_no_words_of_the_engine(kind: str) -> None:
    with failing_upstream() as url:
        engine = load_engine(f"openai:m?url={url}/{kind}/v1&tries=1", key=ENGINE_KEY)
        failed = ask(COMPLETIONS, engine, stream=True)
    assert failed.status == STATUSES[kind], failed.body
    assert failed.json()["error"]["message"]
    text = failed.body.decode()
    assert not any(secret in text for secret in (SECRET, ENGINE_KEY, WORDS))
    if kind == "long":
        assert failed.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("kind", ["cut", "reported_late"])
def test_a_stream_that_breaks_off_ends_in_an_error_and_not_as_if_it_were_whole(kind: str) -> None:
    with failing_upstream() as url:
        engine = load_engine(f"openai:m?url={url}/{kind}/v1&tries=1", key=ENGINE_KEY)
        broken = ask(COMPLETIONS, engine, stream=True)
    assert broken.status == 200
    assert b"[DONE]" not in broken.body
    assert "It begins well" in str(broken.events()[0])
    assert broken.events()[-1]["error"]["message"]
    assert not any(secret in broken.body.decode() for secret in (SECRET, ENGINE_KEY, WORDS))


def test_an_engine_that_says_nothing_is_given_up_at_the_gateways_limit() -> None:
    config = config_with_keys(limits=GatewayLimits(first_seconds=0.1))
    with failing_upstream() as url:
        late = ask(COMPLETIONS, load_engine(f"openai:m?url={url}/silent/v1"), config=config, stream=True)
    assert (late.status, late.json()["error"]["code"]) == (504, "timeout")


def test_the_list_of_models_says_which_apis_each_has() -> None:
    async def scenario() -> Any:
        async with gateway_of(load_engine("openai:m?url=http://127.0.0.1:1"), FakeEngine([])) as client:
            return (await client.get("/v1/models")).json()["data"]

    common = ["chat/completions", "messages", "responses"]
    assert [one["ferrule"]["apis"] for one in asyncio.run(scenario())] == [
        [*common, "completions", "embeddings"],
        common,
    ]
