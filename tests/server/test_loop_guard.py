"""A client's endless loop ends at the gateway: the model reads a hint, and the fifth call of the loop is not made.

The model always wants the same calls. It writes what the real matcher of its grammar admits, and only what it does not
want if the grammar leaves nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import pytest

from engines.tools import PLAIN_TEMPLATE
from ferrule.core.json_text import canonical
from ferrule.core.request import ChoicePolicy
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.rules.matcher import ByteMatcher
from ferrule.server.config.config import Config, EngineConfig
from server.client import Client, ClientResponse, gateway_of

Call = tuple[str, dict[str, Any]]
APIS = ("chat", "messages", "responses")
STRING = {"type": "string"}
TOOLS: dict[str, dict[str, Any]] = {
    "read": {"type": "object", "properties": {"path": STRING}, "required": ["path"]},
    "bash": {
        "type": "object",
        "properties": {"command": STRING, "timeout": {"type": "integer"}},
        "required": ["command"],
    },
    "status": {"type": "object", "properties": {}},
    "lamp": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
}
READ: Call = ("read", {"path": "a.py"})
OTHER: Call = ("read", {"path": "b.py"})
BASH: Call = ("bash", {"command": "make", "timeout": 5})
STATUS: Call = ("status", {})
LAMP: Call = ("lamp", {"on": True})
ENOUGH = 12


@dataclass(frozen=True)
class Loop:
    """Calls for each round, over and over, the text before them, and what the tools answer."""

    rounds: tuple[tuple[Call, ...], ...]
    text: Callable[[int], str] = lambda number: ""
    result: str = "nothing new"
    is_error: bool = False


LOOPS = {
    "the same call": Loop(((READ,),)),
    "a call with two arguments": Loop(((BASH,),)),
    "a call without arguments": Loop(((STATUS,),)),
    "a call with a listed value": Loop(((LAMP,),)),
    "two calls in turn": Loop(((READ,), (BASH,))),
    "two calls of one tool in turn": Loop(((READ,), (OTHER,))),
    "three calls in turn": Loop(((READ,), (BASH,), (STATUS,))),
    "a call twice, then another": Loop(((READ,), (READ,), (BASH,))),
    "longer text each time": Loop(((READ,),), lambda number: "I look once more.\n" * number),
    "the same error": Loop(((BASH,),), result="make: no such target", is_error=True),
    "parallel pairs": Loop(((READ, BASH),)),
    "errors in turn": Loop(((READ,), (OTHER,)), result="no such file", is_error=True),
}


def written(call: Call) -> str:
    return f"<tool_call>\n{json.dumps({'name': call[0], 'arguments': call[1]})}\n</tool_call>"


class StubbornModel(FakeGenerator):
    """Wants the calls of a loop, whatever it reads, and answers only if the grammar does not admit them."""

    def __init__(self, loop: Loop) -> None:
        super().__init__([], ModelFacts(template=PLAIN_TEMPLATE))
        self._loop = loop
        self._next_round = count()

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        self.requests.append(request)
        number = next(self._next_round)
        calls = self._loop.rounds[number % len(self._loop.rounds)]
        text = self._loop.text(number) + "\n".join(map(written, calls))
        assert request.grammar is not None
        matcher = ByteMatcher(request.grammar.text)
        text = text if matcher.accepts(text) else "I stop here."
        assert matcher.accepts(text)
        yield Piece(text)
        yield CompletionEnd(False, len(request.prompt), len(text))


class Agent:
    """A client that runs every call of the model and sends the whole history again."""

    def __init__(self, api: str, client: Client) -> None:
        self.api, self._client = api, client
        self.history: list[Any] = [{"role": "user", "content": "Fix it."}]

    async def ask(self, stream: bool = False) -> ClientResponse:
        functions = [{"name": name, "description": "", "parameters": schema} for name, schema in TOOLS.items()]
        match self.api:
            case "chat":
                tools = [{"type": "function", "function": one} for one in functions]
                path, body = "/v1/chat/completions", {"messages": self.history, "tools": tools}
            case "messages":
                tools = [{"name": one["name"], "input_schema": one["parameters"]} for one in functions]
                path, body = "/v1/messages", {"messages": self.history, "tools": tools, "max_tokens": 500}
            case _:
                tools = [{"type": "function", "strict": False, **one} for one in functions]
                path, body = "/v1/responses", {"input": self.history, "tools": tools, "store": False}
        response = await self._client.post(path, {**body, "stream": stream})
        assert response.status == 200, response.body
        return response

    def calls(self, response: ClientResponse) -> list[tuple[str, str, str]]:
        """Each call of an answer: its id, tool and arguments. The answer is added to the history."""
        body = response.json()
        match self.api:
            case "chat":
                message = body["choices"][0]["message"]
                self.history.append(message)
                calls = message.get("tool_calls") or []
                return [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in calls]
            case "messages":
                self.history.append({"role": "assistant", "content": body["content"]})
                blocks = [one for one in body["content"] if one["type"] == "tool_use"]
                return [(one["id"], one["name"], json.dumps(one["input"])) for one in blocks]
            case _:
                self.history += body["output"]
                items = [one for one in body["output"] if one["type"] == "function_call"]
                return [(one["call_id"], one["name"], one["arguments"]) for one in items]

    def add_results(self, ids: Sequence[str], result: str, *, is_error: bool = False) -> None:
        match self.api:
            case "chat":
                self.history += [{"role": "tool", "tool_call_id": id, "content": result} for id in ids]
            case "messages":
                blocks = [
                    {"type": "tool_result", "tool_use_id": id, "content": result, "is_error": is_error} for id in ids
                ]
                # Claude Code puts reminders beside results.
                self.history.append({"role": "user", "content": [*blocks, {"type": "text", "text": "A reminder."}]})
            case _:
                self.history += [{"type": "function_call_output", "call_id": id, "output": result} for id in ids]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", LOOPS)
def test_an_endless_loop_ends_before_any_call_is_made_a_fifth_time(name: str, api: str) -> None:
    loop = LOOPS[name]

    async def story() -> None:
        model = StubbornModel(loop)
        made: Counter[str] = Counter()
        headers: list[str] = []
        async with gateway_of(TextEngine(model, TextOptions(format="hermes"))) as client:
            agent = Agent(api, client)
            for _ in range(ENOUGH * len(loop.rounds)):
                response = await agent.ask()
                headers.append(response.headers.get("ferrule-loop", ""))
                calls = agent.calls(response)
                if not calls:
                    break
                made.update(f"{tool} {canonical(json.loads(arguments))}" for _, tool, arguments in calls)
                agent.add_results([id for id, _, _ in calls], loop.result, is_error=loop.is_error)
            else:
                pytest.fail(f"it never ends: {made}")
        expected = {f"{tool} {canonical(arguments)}" for calls in loop.rounds for tool, arguments in calls}
        if name != "a call with a listed value":
            assert set(made) == expected, "another call was written instead"
        assert max(made.values()) == 4
        assert "excluded" in headers[-1]
        assert headers[:2] == ["", ""]
        # There the first call is new until the second comes again, and by then it was made four times.
        assert any("hint" in one for one in headers) or name == "a call twice, then another"

    asyncio.run(story())


@pytest.mark.parametrize("api", APIS)
def test_hints_are_appended_and_the_prompt_before_them_stays_the_same(api: str) -> None:
    async def story() -> None:
        model = StubbornModel(LOOPS["the same call"])
        async with gateway_of(TextEngine(model, TextOptions(format="hermes"))) as client:
            agent = Agent(api, client)
            for _ in range(5):
                calls = agent.calls(await agent.ask())
                agent.add_results([id for id, _, _ in calls], "nothing new")
        opening = "<|assistant|>"
        prompts = [request.prompt for request in model.requests[:5]]
        for shorter, longer in pairwise(prompts):
            assert longer.startswith(shorter.removesuffix(opening))
        assert "Note:" not in prompts[2]
        assert prompts[3].count("Note:") == 1
        assert prompts[4].count("Note:") == 2

    asyncio.run(story())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_the_header_is_sent_with_whole_and_with_streamed_answers(api: str, stream: bool) -> None:
    async def story() -> None:
        async with gateway_of(
            TextEngine(StubbornModel(LOOPS["the same call"]), TextOptions(format="hermes"))
        ) as client:
            agent = Agent(api, client)
            for _ in range(3):
                calls = agent.calls(await agent.ask())
                agent.add_results([id for id, _, _ in calls], "nothing new")
            assert (await agent.ask(stream)).headers["ferrule-loop"] == "read=hint"

    asyncio.run(story())


def test_a_stored_response_has_the_header_too() -> None:
    async def story() -> None:
        async with gateway_of(
            TextEngine(StubbornModel(LOOPS["the same call"]), TextOptions(format="hermes"))
        ) as client:
            call = {"type": "function_call", "name": "read", "arguments": '{"path": "a.py"}'}
            items: list[Any] = [{"role": "user", "content": "Fix it."}]
            for id in ("c1", "c2", "c3", "c4"):
                items += [
                    {**call, "call_id": id},
                    {"type": "function_call_output", "call_id": id, "output": "nothing new"},
                ]
            tool = {"type": "function", "strict": False, "name": "read", "parameters": TOOLS["read"]}
            for stream in (False, True):
                body = {"input": items, "tools": [tool], "stream": stream}
                response = await client.post("/v1/responses", body)
                assert response.headers["ferrule-loop"] == "read=excluded"
                assert b"function_call_arguments.done" not in response.body
                assert b"I stop here." in response.body

    asyncio.run(story())


def test_the_guard_can_be_turned_off() -> None:
    async def story() -> None:
        engine = TextEngine(StubbornModel(LOOPS["the same call"]), TextOptions(format="hermes"))
        config = Config(engines=(EngineConfig(name="e0", use="e0"),), loop_guard=False)
        async with gateway_of(engine, config=config) as client:
            agent = Agent("chat", client)
            for _ in range(8):
                response = await agent.ask()
                assert "ferrule-loop" not in response.headers
                calls = agent.calls(response)
                assert len(calls) == 1
                agent.add_results([id for id, _, _ in calls], "nothing new")

    asyncio.run(story())


def test_a_required_call_is_not_demanded_where_the_only_call_is_excluded() -> None:
    async def story() -> None:
        async with gateway_of(
            TextEngine(StubbornModel(LOOPS["the same call"]), TextOptions(format="hermes"))
        ) as client:
            agent = Agent("chat", client)
            for _ in range(4):
                calls = agent.calls(await agent.ask())
                agent.add_results([id for id, _, _ in calls], "nothing new")
            tools = [{"type": "function", "function": {"name": "read", "parameters": TOOLS["read"]}}]
            body = {"messages": agent.history, "tools": tools, "tool_choice": "required"}
            response = await client.post("/v1/chat/completions", body)
            assert response.json()["choices"][0]["message"]["content"] == "I stop here."

    asyncio.run(story())


def test_a_gateway_that_demands_calls_demands_none_while_a_call_is_excluded() -> None:
    async def story() -> None:
        engine = TextEngine(StubbornModel(LOOPS["the same call"]), TextOptions(format="hermes"))
        engines = (EngineConfig(name="e0", use="e0"),)
        config = Config(engines=engines, tool_choice_policy=ChoicePolicy.REQUIRED_ALWAYS)
        async with gateway_of(engine, config=config) as client:
            tools = [{"type": "function", "function": {"name": "read", "parameters": TOOLS["read"]}}]
            history: list[Any] = [{"role": "user", "content": "Fix it."}]
            for _ in range(4):
                body = (await client.post("/v1/chat/completions", {"messages": history, "tools": tools})).json()
                message = body["choices"][0]["message"]
                (call,) = message["tool_calls"]
                history += [message, {"role": "tool", "tool_call_id": call["id"], "content": "nothing new"}]
            response = await client.post("/v1/chat/completions", {"messages": history, "tools": tools})
            assert response.json()["choices"][0]["message"]["content"] == "I stop here."

    asyncio.run(story())
