"""Approved while the caller is gone: the call runs once, the conversation ends, and the caller learns of it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.dialects.frames.server_frames import ConfirmationFrame
from ferrule.engines.fake import FakeEngine
from lab.loopback_server import loopback_server
from server.keys import bearer
from server.tool_world import CONFIG, World, run_story
from server.websocket_client import connect
from waiting import PATIENCE

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
USER = [{"role": "user", "content": "Pay Bob."}]
REPLIES = [Reply.of(ToolCall.of("pay", {"amount": 3}, id="c1")), "Paid Bob."]
MCP = {"type": "mcp", "server_label": "ferrule", "require_approval": "always", "allowed_tools": ["pay"]}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": USER, "ferrule": {"tools": ["pay"]}}),
    "chat, streamed": ("/v1/chat/completions", {"messages": USER, "stream": True, "ferrule": {"tools": ["pay"]}}),
    "messages": ("/v1/messages", {"messages": USER, "max_tokens": 100, "ferrule": {"tools": ["pay"]}}),
    "responses": ("/v1/responses", {"input": "Pay Bob.", "tools": [MCP]}),
    "responses, not stored": ("/v1/responses", {"input": "Pay Bob.", "tools": [MCP], "store": False}),
}


@dataclass(slots=True)
class Receiver:
    """What a webhook's receiver got. It answers 503 `failures` times before it takes one."""

    url: str = ""
    failures: int = 0
    attempts: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    bodies: list[Any] = field(default_factory=list[Any])

    def take(self, headers: dict[str, str], body: bytes) -> int:
        self.attempts.append((headers, body))
        if len(self.attempts) <= self.failures:
            return 503
        self.bodies.append(json.loads(body))
        return 204

    def check_signatures(self) -> None:
        for headers, body in self.attempts:
            signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            key = base64.b64decode(SECRET.removeprefix("whsec_"))
            expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
            assert headers["webhook-signature"] == f"v1,{expected}"


@contextmanager
def receiver(failures: int = 0) -> Generator[Receiver]:
    one = Receiver(failures=failures)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(one.take({name.lower(): value for name, value in self.headers.items()}, body))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with loopback_server(Handler) as url:
        one.url = f"{url}/hook"
        yield one


async def _pending(world: World, count: int = 1) -> list[Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            data = (await world.client.get("/v1/approvals?state=pending", bearer("boss"))).json()["data"]
            if len(data) == count:
                return data
            await asyncio.sleep(0.05)


async def _result(world: World, conversation: str, status: str = "completed") -> Any:
    """Wait for the result, as a caller does who comes back."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await world.client.get(f"/v1/conversations/{conversation}/result", bearer("ann"))
            view = answer.json()
            assert answer.status == (202 if view["status"] in ("waiting", "running") else 200)
            if view["status"] == status:
                return view
            assert view["status"] in ("waiting", "running"), view
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("api", REQUESTS)
def test_an_approved_conversation_ends_without_its_caller(api: str) -> None:
    async def story(world: World) -> None:
        path, body = REQUESTS[api]
        assert (await world.client.post(path, body, bearer("ann"))).status == 200
        approval = (await _pending(world))[0]
        waiting = await _result(world, approval["conversation"], "waiting")
        assert waiting["approvals"] == [approval["id"]]
        assert (await world.decide(approval["id"], approve=True)).status == 200
        result = await _result(world, approval["conversation"])
        assert result["text"] == "Paid Bob."
        assert [(one["tool"], one["content"]) for one in result["calls"]] == [("pay", "paid 3")]
        assert world.done["pay"] == 1
        # Nobody else reads it.
        for who, status in (("rob", 404), ("eve", 404), ("boss", 200)):
            answer = await world.client.get(f"/v1/conversations/{approval['conversation']}/result", bearer(who))
            assert answer.status == status

    run_story(story, replies=REPLIES)


def test_the_model_reads_a_denial_without_the_caller() -> None:
    async def story(world: World) -> None:
        path, body = REQUESTS["chat"]
        await world.client.post(path, body, bearer("ann"))
        approval = (await _pending(world))[0]
        await world.decide(approval["id"], approve=False, why="too much")
        result = await _result(world, approval["conversation"])
        assert (result["text"], result["calls"][0]["content"]) == ("Paid Bob.", "denied: too much")
        assert world.done["pay"] == 0

    run_story(story, replies=REPLIES)


def test_the_tools_and_the_limits_are_those_of_the_request() -> None:
    async def story(world: World) -> None:
        path, body = REQUESTS["chat"]
        more = {"max_tokens": 77, "temperature": 0.5}
        await world.client.post(path, {**body, **more}, bearer("ann"))
        approval = (await _pending(world))[0]
        await world.decide(approval["id"], approve=True)
        await _result(world, approval["conversation"])
        engine: Any = world.client.gateway.router.engine(None).replicas[0].engine
        for request in engine.requests:
            assert [tool.name for tool in request.tools] == ["pay"]
            assert (request.max_tokens, request.temperature) == (77, 0.5)

    run_story(story, replies=REPLIES)


def test_a_second_approval_of_the_same_conversation_continues_it_too() -> None:
    async def story(world: World) -> None:
        path, body = REQUESTS["chat"]
        await world.client.post(path, body, bearer("ann"))
        first = (await _pending(world))[0]
        await world.decide(first["id"], approve=True)
        async with asyncio.timeout(PATIENCE):
            while (second := (await _pending(world))[0])["id"] == first["id"]:
                await asyncio.sleep(0.05)
        await world.decide(second["id"], approve=True)
        assert (await _result(world, first["conversation"]))["text"] == "Both."
        assert world.done["pay"] == 2

    calls = [Reply.of(ToolCall.of("pay", {"amount": amount}, id="c1")) for amount in (3, 4)]
    run_story(story, replies=[*calls, "Both."])


def test_an_approved_call_of_the_tools_api_runs_without_its_caller_who_gets_the_result_later() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay", {"amount": 3}, call_id="c")).json()["approval"]
        await world.decide(waiting["id"], approve=True)
        result = await _result(world, waiting["conversation"])
        assert result["call"]["outcome"]["content"] == "paid 3"
        assert (await world.call("pay", {"amount": 3}, call_id="c")).json()["content"] == "paid 3"
        assert world.done["pay"] == 1

    run_story(story)


def test_a_call_that_has_started_is_running_and_never_reported_as_not_run() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay_slowly", {"amount": 3}, call_id="c")).json()["approval"]
        await world.decide(waiting["id"], approve=True)
        await asyncio.wait_for(world.has_started.wait(), PATIENCE)
        for _ in range(3):
            answer = await world.client.get(f"/v1/conversations/{waiting['conversation']}/result", bearer("ann"))
            assert (answer.status, answer.json()["status"]) == (202, "running")
        world.gate.set()
        result = await _result(world, waiting["conversation"])
        assert result["call"]["outcome"]["content"] == "paid 3"
        assert world.done["pay_slowly"] == 1

    run_story(story)


def test_an_approved_call_over_mcp_without_an_id_runs_once_and_its_repetition_gets_the_result() -> None:
    async def story(world: World) -> None:
        params = {"name": "pay", "arguments": {"amount": 3}}
        assert b"requires_confirmation" in (await world.rpc("tools/call", params)).body
        approval = (await _pending(world))[0]
        await world.decide(approval["id"], approve=True)
        await _result(world, approval["conversation"])
        assert b"paid 3" in (await world.rpc("tools/call", params)).body
        assert world.done["pay"] == 1
        # The next one is another call.
        assert b"requires_confirmation" in (await world.rpc("tools/call", params)).body

    run_story(story)


def test_a_caller_who_is_still_there_gets_the_answer_on_the_stream() -> None:
    async def story(world: World) -> None:
        async with connect(world.client, bearer("ann")) as socket:
            await socket.send(AskFrame({"messages": USER}))
            frame: Any = (await socket.until(ConfirmationFrame)).frame
            await world.decide(frame.approval, approve=True)
            await socket.to_end()
            assert "Paid Bob." in str(socket.frames)
        assert (await _result(world, frame.conversation))["text"] == "Paid Bob."
        assert world.done["pay"] == 1

    run_story(story, replies=REPLIES)


def test_a_websocket_that_is_gone_does_not_lose_the_answer() -> None:
    async def story(world: World) -> None:
        async with connect(world.client, bearer("ann")) as socket:
            await socket.send(AskFrame({"messages": USER}))
            frame: Any = (await socket.until(ConfirmationFrame)).frame
        await world.decide(frame.approval, approve=True)
        assert (await _result(world, frame.conversation))["text"] == "Paid Bob."
        assert world.done["pay"] == 1

    # The turn is stopped before the decision comes. A call that it has started by then would end with it.
    limits = replace(CONFIG.limits, resume_seconds=0.0)
    run_story(story, replies=REPLIES, limits=limits)


def test_a_webhook_tells_the_caller_once_it_is_taken_and_keeps_its_id() -> None:
    with receiver(failures=2) as hook:

        async def story(world: World) -> None:
            path, body = REQUESTS["chat"]
            await world.client.post(path, body, bearer("ann"))
            approval = (await _pending(world))[0]
            await world.decide(approval["id"], approve=True)
            async with asyncio.timeout(PATIENCE):
                while not hook.bodies:
                    await asyncio.sleep(0.05)
            data = hook.bodies[0]["data"]
            assert hook.bodies[0]["type"] == "conversation.completed"
            assert (data["conversation"], data["principal"], data["tenant"]) == (
                *(approval["conversation"], "ann", "acme"),
            )
            assert "Bob" not in json.dumps(hook.bodies)
            result = (await world.client.get(data["result"], bearer("ann"))).json()
            assert result["text"] == "Paid Bob."

        server = replace(CONFIG.server, webhook_url=hook.url, webhook_secret=SECRET, webhook_retry_seconds=0.05)
        run_story(story, replies=REPLIES, server=server)
        assert len(hook.attempts) == 3
        assert len({headers["webhook-id"] for headers, _ in hook.attempts}) == 1
        hook.check_signatures()


def test_an_engine_that_fails_is_asked_again_and_the_effect_is_not_repeated() -> None:
    async def story(world: World) -> None:
        path, body = REQUESTS["chat"]
        await world.client.post(path, body, bearer("ann"))
        approval = (await _pending(world))[0]
        replica = world.client.gateway.router.engine(None).replicas[0]
        engine, replica.engine = replica.engine, _Broken()
        await world.decide(approval["id"], approve=True)
        async with asyncio.timeout(PATIENCE):
            while not world.done["pay"]:
                await asyncio.sleep(0.05)
        replica.engine = engine
        assert (await _result(world, approval["conversation"]))["text"] == "Paid Bob."
        assert world.done["pay"] == 1

    run_story(story, replies=REPLIES)


def test_what_cannot_be_continued_is_reported_as_failed() -> None:
    async def story(world: World) -> None:
        path, body = REQUESTS["chat"]
        await world.client.post(path, body, bearer("ann"))
        approval = (await _pending(world))[0]
        gateway = world.client.gateway
        keys = gateway.config.keys
        others = tuple(key for key in keys if key.name != "ann")
        await gateway.keys.set_config(replace(gateway.config, keys=others))
        await world.decide(approval["id"], approve=True)
        async with asyncio.timeout(PATIENCE):
            while True:
                continuation = await gateway.ledger.continuation(approval["conversation"])
                if continuation is not None and continuation.status == "failed":
                    break
                await asyncio.sleep(0.02)
        # She reads the result when she has a key again.
        await gateway.keys.set_config(gateway.config)
        result = await _result(world, approval["conversation"], "failed")
        assert result["error"]["message"] == "ann no longer has a key"
        assert world.done["pay"] == 0

    run_story(story, replies=REPLIES)


class _Broken(FakeEngine):
    """Has no reply, so every request fails."""

    def __init__(self) -> None:
        super().__init__([])
