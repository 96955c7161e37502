"""Traces: one row for a conversation, whatever the client and however many requests it took."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import Event, TextDelta, Usage
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.fake import FakeEngine
from ferrule.errors import EngineError, LedgerUnavailableError
from ferrule.server.config.config import Config, EngineConfig, TracesConfig, TraceText
from ferrule.server.observability import trace_recorder
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.tool_world import CONFIG, World, run_story

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
TOOL = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
KEYS = config_with_keys(key("ann", tenant="acme"), key("rob", tenant="acme"), key("boss", tenant="acme", admin=True))


def look(place: str, id: str = "call_1") -> ToolCall:
    return ToolCall(id, FunctionCall("look", f'{{"place": "{place}"}}'))


async def traces(client: Client, query: str = "", who: str = "ann") -> list[dict[str, Any]]:
    """The list, when everything that has ended is in it."""
    await client.gateway.traces.flush()
    answer = await client.get(f"/v1/traces{query}", bearer(who))
    assert answer.status == 200, answer.body
    return answer.json()["data"]


async def trace(client: Client, id: str, who: str = "ann") -> dict[str, Any]:
    answer = await client.get(f"/v1/traces/{id}", bearer(who))
    assert answer.status == 200, answer.body
    return answer.json()


def used(reply: Reply) -> Reply:
    return replace(reply, usage=Usage(7, 3))


def run(story: Callable[[Client], Any], *replies: Reply | str, config: Config = KEYS) -> None:
    async def scenario() -> None:
        async with gateway_of(scripted_engine(*replies), config=config) as client:
            await story(client)

    asyncio.run(scenario())


async def _chat_agent(client: Client) -> None:
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How is Bern?"}]
    for _ in range(3):
        body = {"model": "e0", "messages": messages, "tools": [TOOL]}
        message = (await client.post(CHAT, body, bearer("ann"))).json()["choices"][0]["message"]
        messages.append({name: value for name, value in message.items() if name != "ferrule"})
        messages += [
            {"role": "tool", "tool_call_id": one["id"], "content": "sun"} for one in message.get("tool_calls") or ()
        ]
    await client.post(
        CHAT, {"model": "e0", "messages": [*messages, {"role": "user", "content": "Thanks."}]}, bearer("ann")
    )


async def _streaming_chat_agent(client: Client) -> None:
    messages: list[Any] = [{"role": "user", "content": "How is Bern?"}]
    for _ in range(4):
        body = {"model": "e0", "messages": messages, "tools": [TOOL], "stream": True}
        events = (await client.post(CHAT, body, bearer("ann"))).events()
        deltas = [one["choices"][0]["delta"] for one in events if one["choices"]]
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        text = "".join(delta.get("content") or "" for delta in deltas)
        ids = [one["id"] for one in calls if one.get("id")]
        arguments = "".join(one["function"].get("arguments", "") for one in calls)
        function = {"name": "look", "arguments": arguments}
        tool_calls = {"tool_calls": [{"id": ids[0], "type": "function", "function": function}]} if ids else {}
        messages.append({"role": "assistant", "content": text or None, **tool_calls})
        messages += [{"role": "tool", "tool_call_id": id, "content": "sun"} for id in ids]
        messages += [] if ids else [{"role": "user", "content": "Thanks."}]


async def _messages_agent(client: Client) -> None:
    messages: list[Any] = [{"role": "user", "content": "How is Bern?"}]
    tool = {"name": "look", "input_schema": SCHEMA}
    for _ in range(4):
        body = {"model": "e0", "max_tokens": 99, "system": "x", "messages": messages, "tools": [tool]}
        content = (await client.post(MESSAGES, body, bearer("ann"))).json()["content"]
        messages.append({"role": "assistant", "content": content})
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": "sun"}
            for one in content
            if one["type"] == "tool_use"
        ]
        messages.append({"role": "user", "content": results or "Thanks."})


async def _stateless_responses_agent(client: Client) -> None:
    items: list[Any] = [{"role": "user", "content": "How is Bern?"}]
    tool = {"type": "function", "name": "look", "parameters": SCHEMA}
    for _ in range(4):
        body = {"model": "e0", "input": items, "tools": [tool], "store": False}
        output = (await client.post(RESPONSES, body, bearer("ann"))).json()["output"]
        items += output
        calls = [one for one in output if one["type"] == "function_call"]
        items += [{"type": "function_call_output", "call_id": one["call_id"], "output": "sun"} for one in calls]
        items += [] if calls else [{"role": "user", "content": "Thanks."}]


async def _stored_responses_agent(client: Client) -> None:
    tool = {"type": "function", "name": "look", "parameters": SCHEMA}
    items: list[Any] = [{"role": "user", "content": "How is Bern?"}]
    previous: dict[str, str] = {}
    for _ in range(4):
        body = {"model": "e0", "input": items, "tools": [tool], **previous}
        response = (await client.post(RESPONSES, body, bearer("ann"))).json()
        previous = {"previous_response_id": response["id"]}
        calls = [one for one in response["output"] if one["type"] == "function_call"]
        items = [{"type": "function_call_output", "call_id": one["call_id"], "output": "sun"} for one in calls]
        items = items or [{"role": "user", "content": "Thanks."}]


AGENTS = [_chat_agent, _streaming_chat_agent, _messages_agent, _stateless_responses_agent, _stored_responses_agent]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda one: one.__name__.strip("_"))
def test_an_agent_that_asks_four_times_makes_one_trace(agent: Callable[[Client], Any]) -> None:
    async def story(client: Client) -> None:
        await agent(client)
        (row,) = await traces(client)
        assert (row["request_count"], row["error_count"], row["status"]) == (4, 0, "completed")
        assert row["title"] == "How is Bern?"
        assert (row["prompt_tokens"], row["completion_tokens"]) == (28, 12)
        whole = await trace(client, row["id"])
        assert [one["tools"] for one in whole["requests"]] == [["look"], ["look"], [], []]
        assert [one["finish"] for one in whole["requests"]] == ["tool_calls", "tool_calls", "stop", "stop"]
        assert len({one["request_id"] for one in whole["requests"]}) == 4

    first, second = Reply.of("I look.", look("Bern", "c1")), Reply.of(look("Rome", "c2"))
    run(story, *map(used, (first, second, Reply.of("Sun."), Reply.of("You are welcome."))))


def test_two_conversations_that_begin_alike_are_two_traces() -> None:
    async def story(client: Client) -> None:
        question = {"role": "user", "content": "Hello"}
        histories: list[list[Any]] = []
        for _ in range(2):
            body = {"model": "e0", "messages": [question]}
            answer = (await client.post(CHAT, body, bearer("ann"))).json()["choices"][0]["message"]
            histories.append([question, {"role": "assistant", "content": answer["content"]}])
        for history in histories:
            await client.post(CHAT, {"model": "e0", "messages": [*history, question]}, bearer("ann"))
        assert [one["request_count"] for one in await traces(client)] == [2, 2]

    run(story, "one", "two", "three", "four")


def test_a_principal_sees_its_own_traces_and_an_admin_those_of_the_tenant() -> None:
    async def story(client: Client) -> None:
        body = {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}
        for who in ("ann", "rob"):
            await client.post(CHAT, body, bearer(who))
        anns, robs = await traces(client), await traces(client, who="rob")
        assert [one["principal"] for one in (*anns, *robs)] == ["ann", "rob"]
        assert [one["principal"] for one in await traces(client, who="boss")] == ["rob", "ann"]
        assert [one["principal"] for one in await traces(client, "?principal=ann", who="boss")] == ["ann"]
        assert [one["principal"] for one in await traces(client, "?principal=rob")] == ["ann"]
        assert (await client.get(f"/v1/traces/{robs[0]['id']}", bearer("ann"))).status == 404
        assert (await client.get(f"/v1/traces/{robs[0]['id']}", bearer("boss"))).status == 200
        for query in ("?status=odd", "?since=x", "?until=1e999", "?after=never", "?limit=0", "?text=%00"):
            assert (await client.get(f"/v1/traces{query}", bearer("ann"))).status == 400, query

    run(story, "hi", "ho")


class FailingEngine(FakeEngine):
    """Fails with an address in its message, then answers."""

    failures = 2

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        if self.failures:
            self.failures -= 1
            raise EngineError("http://10.0.0.1:8001 said: key sk-verysecretkey1 is wrong", upstream_status=500)
        async for event in super().stream_request(request):
            yield event


def test_a_failed_conversation_shows_what_happened_to_each_audience() -> None:
    async def scenario() -> None:
        async with gateway_of(FailingEngine([Reply.of("hi")]), config=KEYS) as client:
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}
            statuses = [(await client.post(CHAT, body, bearer("ann"))).status for _ in range(2)]
            assert all(status >= 500 for status in statuses)
            (row,) = await traces(client, "?status=failed")
            assert (row["request_count"], row["error_count"], row["error"]) == (2, 2, "engine_failed")
            for who, secret in (("ann", False), ("boss", True)):
                errors = [one["error"] for one in (await trace(client, row["id"], who))["requests"]]
                assert [one["status"] for one in errors] == statuses
                assert all(("10.0.0.1" in one["message"]) is secret for one in errors), errors
                assert not any("verysecret" in one["message"] for one in errors)
            # The next try belongs to it, and mends its status.
            assert (await client.post(CHAT, body, bearer("ann"))).status == 200
            (row,) = await traces(client)
            assert (row["request_count"], row["error_count"], row["status"]) == (3, 2, "completed")
            assert await traces(client, "?status=failed") == []

    asyncio.run(scenario())


def test_a_request_that_is_refused_before_its_answer_is_recorded_too() -> None:
    async def story(client: Client) -> None:
        bad: list[tuple[str, Any, int]] = [
            (CHAT, {"model": "e0", "messages": "no list"}, 400),
            (CHAT, {"model": "m\x00\ud800", "messages": [{"role": "user", "content": "Hello"}]}, 404),
            (MESSAGES, b"no json", 400),
            (RESPONSES, {"model": "e0", "input": 7}, 400),
        ]
        for path, body, status in bad:
            assert (await client.post(path, body, bearer("ann"))).status == status, path
        # Nobody asked these.
        assert (await client.post(CHAT, {}, {"authorization": "Bearer wrong"})).status == 401
        assert (await client.get("/v1/models/none", bearer("ann"))).status == 404
        rows = await traces(client)
        assert [one["status"] for one in rows] == ["failed"] * 4
        requests = [(await trace(client, one["id"]))["requests"][0] for one in reversed(rows)]
        assert [(one["api"], one["error"]["status"]) for one in requests] == [(path, status) for path, _, status in bad]

    run(story, config=replace(KEYS, engines=(EngineConfig(name="e0", use="e0"), EngineConfig(name="e1", use="e0"))))


@pytest.mark.parametrize("text, title, shown", [("none", "", 0), ("beginning", "Hello", 2), ("all", "Hello", 3)])
def test_a_setting_says_how_much_text_is_kept(text: str, title: str, shown: int) -> None:
    long = "word " * 1000

    async def story(client: Client) -> None:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Hello {long}"}]
        await client.post(CHAT, {"model": "e0", "messages": messages}, bearer("ann"))
        (row,) = await traces(client)
        assert row["title"].startswith(title)
        assert bool(row["title"]) == bool(title)
        (request,) = (await trace(client, row["id"]))["requests"]
        assert len(request["messages"]) == shown
        assert (long in str(request["messages"])) == (text == "all")

    run(story, "hi", config=replace(KEYS, traces=TracesConfig(text=TraceText(text))))


def test_nothing_is_recorded_where_traces_are_kept_for_no_time() -> None:
    async def story(client: Client) -> None:
        await client.post(CHAT, {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}, bearer("ann"))
        assert await traces(client) == []

    run(story, "hi", config=replace(KEYS, traces=TracesConfig(days=0)))


def test_tokens_cost_what_the_engine_that_answered_costs() -> None:
    engines = (EngineConfig(name="e0", use="e0", input_price=2.0, output_price=1000.0),)

    async def story(client: Client) -> None:
        for _ in range(2):
            await client.post(CHAT, {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}, bearer("ann"))
        for row in await traces(client):
            assert row["cost"] == pytest.approx((2.0 * 7 + 1000.0 * 3) / 1e6)

    run(story, used(Reply.of("hi")), used(Reply.of("ho")), config=replace(KEYS, engines=engines))


def test_a_conversation_with_the_gateways_tools_and_an_approval_is_one_trace() -> None:
    async def story(world: World) -> None:
        body = {"model": "e0", "messages": [{"role": "user", "content": "Pay 5."}]}
        answer = (await world.client.post(CHAT, body, bearer("ann"))).json()
        (row,) = await traces(world.client)
        assert (row["status"], row["title"]) == ("waiting", "Pay 5.")
        (conversation,) = (await trace(world.client, row["id"]))["conversations"]
        waiting = next(one["waiting"] for one in answer["ferrule"]["events"] if "waiting" in one)
        assert waiting["conversation"] == conversation
        # The client goes on with what it was shown, while the call still waits.
        history = [*body["messages"], {"role": "assistant", "content": answer["choices"][0]["message"]["content"]}]
        asked = {"model": "e0", "messages": [*history, {"role": "user", "content": "And?"}]}
        await world.client.post(CHAT, asked, bearer("ann"))
        (row,) = await traces(world.client, "?tool=pay")
        assert row["request_count"] == 2
        # An approver's key leads from the approval to the trace by the conversation's id.
        by_conversation = await trace(world.client, conversation, "boss")
        assert by_conversation["id"] == row["id"]

    run_story(story, config=CONFIG, replies=[Reply.of(ToolCall("p", FunctionCall("pay", '{"amount": 5}'))), "Not yet."])


def test_no_request_waits_for_a_ledger_that_does_not_answer() -> None:
    async def story(client: Client) -> None:
        ledger = client.gateway.ledger
        real, is_down = ledger.record_requests, True

        async def record_requests(requests: Any) -> None:
            if is_down:
                raise LedgerUnavailableError("the ledger cannot be reached")
            await real(requests)

        ledger.record_requests = record_requests  # a database that is away
        for _ in range(3):
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}
            assert (await client.post(CHAT, body, bearer("ann"))).status == 200
        with pytest.raises(LedgerUnavailableError):
            await client.gateway.traces.flush()
        is_down = False
        assert len(await traces(client)) == 3

    run(story, "a", "b", "c")


def test_while_the_ledger_hangs_no_messages_are_kept_and_the_oldest_rows_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace_recorder, "_MAX_WAITING", 3)

    async def story(client: Client) -> None:
        recorder, ledger = client.gateway.traces, client.gateway.ledger
        real, gate = ledger.record_requests, asyncio.Event()

        async def record_requests(requests: Any) -> None:
            await gate.wait()
            await real(requests)

        ledger.record_requests = record_requests  # a database that accepts connections and never answers
        for number in range(6):
            body = {"model": "e0", "messages": [{"role": "user", "content": f"Hello {number}"}]}
            assert (await client.post(CHAT, body, bearer("ann"))).status == 200
            while recorder._ended:  # pyright: ignore[reportPrivateUsage]  # what holds the messages
                await asyncio.sleep(0.01)
        gate.set()
        titles = [one["title"] for one in await traces(client)]
        lost = client.gateway.telemetry.counts.values["ferrule_traces_lost"][()]
        # The first was on its way, and three more were kept.
        assert len(titles) + lost == 6
        assert titles[:3] == ["Hello 5", "Hello 4", "Hello 3"]

    run(story, *"abcdef")


def test_a_gateway_stops_although_the_ledger_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_recorder, "_STOP_SECONDS", 0.05)

    async def scenario() -> None:
        async with gateway_of(scripted_engine("a"), config=KEYS) as client:

            async def record_requests(requests: Any) -> None:
                await asyncio.Event().wait()

            client.gateway.ledger.record_requests = record_requests
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}
            assert (await client.post(CHAT, body, bearer("ann"))).status == 200
        assert client.gateway.telemetry.counts.values["ferrule_traces_lost"][()] == 1

    asyncio.run(scenario())


def test_what_a_stop_interrupts_while_it_becomes_a_row_is_counted_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_recorder, "_STOP_SECONDS", 0.05)
    begun, may_end, row_of = threading.Event(), threading.Event(), trace_recorder.row_of

    def slow_row_of(*arguments: Any) -> Any:
        begun.set()
        may_end.wait()
        return row_of(*arguments)

    monkeypatch.setattr(trace_recorder, "row_of", slow_row_of)

    async def scenario() -> None:
        async with gateway_of(scripted_engine("a"), config=KEYS) as client:
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}
            assert (await client.post(CHAT, body, bearer("ann"))).status == 200
            await asyncio.to_thread(begun.wait)
        may_end.set()
        assert client.gateway.telemetry.counts.values["ferrule_traces_lost"][()] == 1

    asyncio.run(scenario())


def test_a_client_that_leaves_is_recorded_as_gone() -> None:
    async def scenario() -> None:
        leave = asyncio.Event()

        class SlowEngine(FakeEngine):
            async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
                leave.set()
                await asyncio.Event().wait()
                yield TextDelta("never")

        async with gateway_of(SlowEngine([]), config=KEYS) as client:
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}
            await client.request("POST", CHAT, body, bearer("ann"), disconnect=leave)
            (row,) = await traces(client)
            assert (row["status"], row["error_count"]) == ("left", 0)

    asyncio.run(scenario())


def test_a_long_request_is_listed_while_it_runs() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        class SlowEngine(FakeEngine):
            async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
                await gate.wait()
                async for event in super().stream_request(request):
                    yield event

        async with gateway_of(SlowEngine([Reply.of("hi")]), config=KEYS) as client:
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hello"}]}
            request = asyncio.ensure_future(client.post(CHAT, body, bearer("ann")))
            while not (rows := (await client.get("/v1/traces", bearer("ann"))).json()["data"]):
                await asyncio.sleep(0.05)
            assert (rows[0]["status"], rows[0]["request_count"]) == ("running", 1)
            assert (await trace(client, rows[0]["id"]))["requests"][0]["seconds"] is None
            gate.set()
            await request
            (row,) = await traces(client)
            assert (row["status"], row["request_count"]) == ("completed", 1)

    asyncio.run(scenario())
