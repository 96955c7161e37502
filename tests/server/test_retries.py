"""A retried request joins the first one: effects happen once, whatever the API and wherever the answer broke off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ferrule import tool
from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import Event, FinishReason, Usage
from ferrule.core.message import Text
from ferrule.core.reply import Reply, events_of
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.fake import with_receipts
from ferrule.errors import EngineUnavailableError
from ferrule.run.executor import ToolSettings
from ferrule.server.config.config import Config, EngineConfig
from ferrule.sources.functions import Functions
from server.client import Client, ClientResponse, gateway_of

RETRY = {"x-stainless-retry-count": "1"}
PAY = Reply.of("One moment. ", ToolCall("c1", FunctionCall("pay", '{"amount": 7}')))
BUSY = EngineUnavailableError("the engine is overloaded")
APIS = ("chat", "messages", "responses", "responses, not stored")


class ScriptedEngine(Engine):
    """Replies and failures in their order. `gate` holds up all after the first reply; with `gates_all`, that too."""

    def __init__(self, script: Iterable[Reply | Exception]) -> None:
        self.traits = Traits(name="scripted")
        self.requests: list[ToolCallRequest] = []
        self.gate: asyncio.Event | None = None
        self.gates_all = False
        self._script = iter(script)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        if self.gate is not None and (self.gates_all or len(self.requests) > 1):
            await self.gate.wait()
        step = next(self._script)
        if isinstance(step, Exception):
            raise step
        for event in events_of(with_receipts(step)):
            yield event

    async def close(self) -> None:
        pass


@dataclass(slots=True)
class Shop:
    client: Client
    engine: ScriptedEngine
    paid: list[int] = field(default_factory=list[int])

    async def ask(self, api: str, headers: dict[str, str] | None = None, **fields: Any) -> ClientResponse:
        return await self.client.post(path_of(api), body_of(api, **fields), headers)


def path_of(api: str) -> str:
    return {"chat": "/v1/chat/completions", "messages": "/v1/messages"}.get(api, "/v1/responses")


def body_of(api: str, text: str = "Pay 7.", **fields: Any) -> dict[str, Any]:
    messages = {"messages": [{"role": "user", "content": text}]}
    return {
        "chat": {"model": "e0", **messages},
        "messages": {"model": "e0", "max_tokens": 100, **messages},
        "responses": {"model": "e0", "input": text},
        "responses, not stored": {"model": "e0", "input": text, "store": False},
    }[api] | fields


def text_of(response: ClientResponse) -> str:
    if response.headers.get("content-type") == "text/event-stream":
        return "".join(map(_event_text, response.events()))
    body = response.json()
    match body:
        case {"choices": [{"message": {"content": text}}]}:
            return text or ""
        case {"type": "message", "content": parts}:
            return "".join(part.get("text", "") for part in parts)
        case {"output": items}:
            messages = [item for item in items if item["type"] == "message"]
            return "".join(part["text"] for item in messages for part in item["content"])
        case _:
            raise AssertionError(body)


def _event_text(event: dict[str, Any]) -> str:
    match event:
        case {"choices": [{"delta": {"content": str(text)}}]}:
            return text
        case {"type": "content_block_delta", "delta": {"text": text}}:
            return text
        case {"type": "response.output_text.delta", "delta": text}:
            return text
        case _:
            return ""


@asynccontextmanager
async def shop_of(*script: Reply | Exception | str, confirms: bool = False, **changes: Any) -> AsyncGenerator[Shop]:
    paid: list[int] = []

    @tool(side_effects=True)
    def pay(amount: int) -> str:
        """Pays an amount."""
        paid.append(amount)
        return "paid"

    @tool
    def look(place: str) -> str:
        """Looks at a place."""
        return place

    engine = ScriptedEngine([Reply.of(one) if isinstance(one, str) else one for one in script])
    tools = ToolSettings(tools_require_confirmation_for_side_effects=confirms)
    config = Config(engines=(EngineConfig(name="e0", use="e0"),), tools=tools, **changes)
    async with gateway_of(engine, sources=[Functions([pay, look])], config=config) as client:
        yield Shop(client, engine, paid)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_a_failure_after_an_effect_is_not_retryable_and_a_retry_resumes(api: str, stream: bool) -> None:
    async def scenario() -> None:
        async with shop_of(PAY, BUSY, "Done.") as shop:
            first = await shop.ask(api, stream=stream)
            assert shop.paid == [7]
            if first.status != 200:
                assert (first.status, first.headers["x-should-retry"]) == (424, "false")
                assert first.headers["ferrule-conversation"] in first.body.decode()
            second = await shop.ask(api, RETRY, stream=stream)
            assert (shop.paid, second.status) == ([7], 200)
            if api != "responses":
                # A stored response that failed stays failed; the others resume.
                assert text_of(second) == "One moment. Done."

    asyncio.run(scenario())


@pytest.mark.parametrize("api", APIS)
def test_a_failure_before_any_effect_is_retryable_and_a_retry_pays_once(api: str) -> None:
    async def scenario() -> None:
        async with shop_of(BUSY, PAY, "Done.") as shop:
            first = await shop.ask(api)
            assert (first.status, first.headers["x-should-retry"], shop.paid) == (503, "true", [])
            second = await shop.ask(api, RETRY)
            assert (second.status, text_of(second), shop.paid) == (200, "One moment. Done.", [7])

    asyncio.run(scenario())


@pytest.mark.parametrize("sign", [RETRY, {"x-envoy-attempt-count": "2"}, {"idempotency-key": '"k"'}], ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_a_retry_of_a_finished_request_gets_the_same_answer(api: str, stream: bool, sign: dict[str, str]) -> None:
    async def scenario() -> None:
        async with shop_of(PAY, "Done.", "Never said.") as shop:
            first = await shop.ask(api, sign if "idempotency-key" in sign else None, stream=stream)
            second = await shop.ask(api, sign, stream=stream)
            assert text_of(first) == text_of(second) == "One moment. Done."
            assert (shop.paid, len(shop.engine.requests)) == ([7], 2)

    asyncio.run(scenario())


@pytest.mark.parametrize("api", APIS)
def test_identical_requests_without_a_sign_are_two_requests(api: str) -> None:
    async def scenario() -> None:
        async with shop_of(PAY, "Done.", PAY, "Done again.") as shop:
            await shop.ask(api)
            second = await shop.ask(api, {"x-stainless-retry-count": "0", "x-envoy-attempt-count": "1"})
            assert (text_of(second), shop.paid) == ("One moment. Done again.", [7, 7])

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_a_request_with_the_key_of_a_running_one_waits_for_its_answer(api: str, stream: bool) -> None:
    async def scenario() -> None:
        async with shop_of(PAY, "Done.") as shop:
            shop.engine.gate = asyncio.Event()
            key = {"idempotency-key": "a"}
            first = asyncio.ensure_future(shop.ask(api, key, stream=stream))
            while not shop.paid:
                await asyncio.sleep(0.01)
            second = asyncio.ensure_future(shop.ask(api, key, stream=stream))
            await asyncio.sleep(0.2)
            assert not second.done()
            shop.engine.gate.set()
            assert text_of(await first) == text_of(await second) == "One moment. Done."
            assert shop.paid == [7]

    asyncio.run(scenario())


@pytest.mark.parametrize("api", APIS)
def test_a_retry_of_a_request_whose_model_still_writes_waits_for_its_answer(api: str) -> None:
    """Nothing has happened by then, but it may: the request is stored before the model is asked."""

    async def scenario() -> None:
        async with shop_of(PAY, "Done.") as shop:
            shop.engine.gate, shop.engine.gates_all = asyncio.Event(), True
            first = asyncio.ensure_future(shop.ask(api))
            while not shop.engine.requests:
                await asyncio.sleep(0.01)
            second = asyncio.ensure_future(shop.ask(api, RETRY))
            await asyncio.sleep(0.2)
            assert not second.done()
            shop.engine.gate.set()
            assert text_of(await first) == text_of(await second) == "One moment. Done."
            assert (shop.paid, len(shop.engine.requests)) == ([7], 2)

    asyncio.run(scenario())


@pytest.mark.parametrize("api", APIS)
def test_a_key_with_another_body_is_refused(api: str) -> None:
    async def scenario() -> None:
        async with shop_of(PAY, "Done.") as shop:
            await shop.ask(api, {"idempotency-key": "a"})
            second = await shop.ask(api, {"idempotency-key": "a"}, text="Pay 8.")
            assert (second.status, second.headers["x-should-retry"]) == (422, "false")
            assert second.json()["error"]["message"].startswith("this Idempotency-Key was sent with another body")
            for bad in ("", '""', "k" * 256, "schlüssel"):
                assert (await shop.ask(api, {"idempotency-key": bad})).status == 400
            assert shop.paid == [7]

    asyncio.run(scenario())


@pytest.mark.parametrize("api", APIS)
def test_a_key_also_keeps_answers_whose_calls_the_client_runs(api: str) -> None:
    function: dict[str, Any] = {"name": "go", "parameters": {"type": "object"}}
    tools: dict[str, list[dict[str, Any]]] = {
        "chat": [{"type": "function", "function": function}],
        "messages": [{"name": "go", "input_schema": {"type": "object"}}],
    }
    offered = tools.get(api, [{"type": "function", **function}])
    call = Reply.of(ToolCall("c1", FunctionCall("go", '{"fast": true}')))

    async def scenario() -> None:
        async with shop_of(call, "Never said.") as shop:
            answers = [await shop.ask(api, {"idempotency-key": "a"}, tools=offered) for _ in range(2)]
            assert [one.status for one in answers] == [200, 200]
            assert '"go"' in answers[0].body.decode()
            assert _calls(answers[0].json()) == _calls(answers[1].json())
            assert len(shop.engine.requests) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("has_tools", [False, True], ids=["the gateway's tools", "the client's tools"])
@pytest.mark.parametrize("api", ["chat", "messages"])
def test_a_retry_is_told_the_same_stop_string_and_the_same_cached_tokens(api: str, has_tools: bool) -> None:
    reply = Reply((Text("So."),), finish=FinishReason.STOP, usage=Usage(9, 2, 5), stop="END")
    schema = {"type": "object"}
    function = {"type": "function", "function": {"name": "go", "parameters": schema}}
    offered = [function if api == "chat" else {"name": "go", "input_schema": schema}]

    async def scenario() -> None:
        async with shop_of(reply) as shop:
            fields: dict[str, Any] = {"tools": offered} if has_tools else {}
            answers = [(await shop.ask(api, {"idempotency-key": "a"}, **fields)).json() for _ in range(2)]
            assert len(shop.engine.requests) == 1
            first, second = ([one["usage"], one.get("stop_reason"), one.get("stop_sequence")] for one in answers)
            assert first == second
            assert "5" in str(first[0])
            assert api == "chat" or first[1:] == ["stop_sequence", "END"]

    asyncio.run(scenario())


def _calls(body: dict[str, Any]) -> list[Any]:
    match body:
        case {"choices": [{"message": {"tool_calls": calls}}]}:
            return calls
        case {"type": "message", "content": parts}:
            return parts
        case _:
            return [(item["call_id"], item["name"], item["arguments"]) for item in body["output"]]


@pytest.mark.parametrize("api", ["chat", "messages", "responses, not stored"])
def test_a_retried_request_raises_one_approval_and_its_resume_keeps_the_tools(api: str) -> None:
    async def scenario() -> None:
        async with shop_of(PAY, "Done.", confirms=True, approval_patience_seconds=0.0) as shop:
            fields = {"max_completion_tokens": 77} if api == "chat" else {}
            offer = {"ferrule": {"tools": ["pay"]}}
            for headers in ({}, RETRY, RETRY):
                assert (await shop.ask(api, headers, **fields, **offer)).status == 200
            (approval,) = await shop.client.gateway.ledger.approvals()
            assert shop.paid == []
            await shop.client.post(f"/v1/approvals/{approval.id}", {"approve": True})
            if api.startswith("responses"):
                answer = await shop.ask(api, RETRY, **fields, **offer)
            else:
                answer = await shop.ask(api, ferrule={"resume": approval.conversation})
            assert (answer.status, text_of(answer)[-5:], shop.paid) == (200, "Done.", [7])
            assert [[one.name for one in request.tools] for request in shop.engine.requests] == [["pay"]] * 2
            assert len({request.max_tokens for request in shop.engine.requests}) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("api", APIS)
def test_a_client_that_left_during_the_effect_finds_it_done_once(api: str) -> None:
    async def scenario() -> None:
        async with shop_of(PAY, "Done.", "Done.") as shop:
            shop.engine.gate = asyncio.Event()
            disconnect = asyncio.Event()
            path, body = path_of(api), body_of(api)
            first = asyncio.ensure_future(shop.client.request("POST", path, body, disconnect=disconnect))
            while not shop.paid:
                await asyncio.sleep(0.01)
            disconnect.set()
            await first
            shop.engine.gate.set()
            second = await shop.ask(api, RETRY)
            assert (second.status, text_of(second), shop.paid) == (200, "One moment. Done.", [7])

    asyncio.run(scenario())
