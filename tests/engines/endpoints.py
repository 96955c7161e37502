"""An endpoint with OpenAI's chat API and a model that does what it is told; each fault is one thing that it gets wrong.

It runs in a thread of its own, so that programs that are not asynchronous can ask it too.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import jsonschema
from aiohttp import web

Wanted = tuple[str, dict[str, Any]]
_IN_WORDS = re.compile(r"the tool (\w+) with exactly these arguments: (\{.*?\})(?= and the tool|\. Call nothing)")
_TO_REPEAT = re.compile(r"<tool_call>\n(\{.*?\})\n</tool_call>")
_VALUES = (1, 2, "red", "abc", "a note", True, [1, 2], {"inner": 1})
_SAMPLES: list[dict[str, Any]] = [
    *({"value": value} for value in _VALUES),
    *({"value": value, "unit": "m"} for value in _VALUES),
    *({name: "a long enough text"} for name in ("text", "city")),
    {"mood": "good", "score": 1},
]


@dataclass
class Endpoint:
    """`faults` are its bad habits, `drops` the keywords that it does not hold, `reads` how its model is spoken to."""

    faults: frozenset[str] = frozenset()
    drops: frozenset[str] = frozenset()
    reads: re.Pattern[str] | None = _IN_WORDS
    key: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    _ids: Any = field(default_factory=count)

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "small"}, {"id": "large"}]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        refusal = self._refusal(body, request.headers.get("Authorization", ""))
        if refusal:
            return web.json_response({"error": {"message": "that will not do"}}, status=refusal)
        text, calls = self._written(body)
        is_cut_off = bool(text) and "text before the call" in self.faults and body.get("tool_choice") == "required"
        if body.get("stream"):
            return await self._streamed(request, text, calls)
        message = {"role": "assistant", "content": text or None, "tool_calls": [self._call(call) for call in calls]}
        choice = {"index": 0, "message": message, "finish_reason": "length" if is_cut_off else self._finish(calls)}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})

    def _refusal(self, body: Mapping[str, Any], key: str) -> int:
        if self.key and key != f"Bearer {self.key}":
            return 401
        if "max_tokens" in body and "new limit" in self.faults:
            return 400
        if isinstance(body.get("tool_choice"), dict) and "no objects" in self.faults:
            return 422
        if "nosuch" in json.dumps(body.get("tools", [])) and "takes any schema" not in self.faults:
            return 500 if "fails on a bad schema" in self.faults else 400
        return 0

    def _written(self, body: Mapping[str, Any]) -> tuple[str, list[Wanted]]:
        tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", [])}
        choice = body.get("tool_choice", "auto")
        calls = [
            (name, arguments) for name, arguments in self._wanted(body["messages"][-1]["content"]) if name in tools
        ]
        calls = self._chosen(choice, tools, calls)
        if body.get("parallel_tool_calls") is False and "ignores parallel" not in self.faults:
            calls = calls[:1]
        is_held = choice == "required" and "required alone holds no schema" not in self.faults
        calls = [
            (name, self._fitted(tools[name]["parameters"], given) if is_held or tools[name].get("strict") else given)
            for name, given in calls
        ]
        if calls:
            return "", calls
        asked = body.get("response_format")
        if asked and "ignores answer schema" not in self.faults:
            return json.dumps(self._fitted(asked["json_schema"]["schema"], {})), []
        return "Hello.", []

    def _chosen(self, choice: Any, tools: Mapping[str, Any], calls: list[Wanted]) -> list[Wanted]:
        first = next(iter(tools), "")
        if choice == "none":
            return calls if "ignores none" in self.faults else []
        if choice == "required":
            is_free = self.faults & {"ignores required", "text before the call"}
            return calls or ([] if is_free else [(first, {})])
        if isinstance(choice, dict) and choice["type"] == "function" and "named is auto" not in self.faults:
            name = choice["function"]["name"]
            return [call for call in calls if call[0] == name] or [(name, {})]
        if isinstance(choice, dict) and choice["type"] == "allowed_tools" and "allowed is auto" not in self.faults:
            names = [tool["function"]["name"] for tool in choice["allowed_tools"]["tools"]]
            return [call for call in calls if call[0] in names] or [(names[0], {})]
        return calls

    def _wanted(self, said: str) -> list[Wanted]:
        if self.reads is _IN_WORDS:
            return [(name, json.loads(arguments)) for name, arguments in _IN_WORDS.findall(said)]
        if self.reads is _TO_REPEAT:
            found = [json.loads(call) for call in _TO_REPEAT.findall(said)]
            return [(call["name"], call["arguments"]) for call in found]
        return []

    def _fitted(self, schema: Any, given: dict[str, Any]) -> dict[str, Any]:
        """What the model wants to write, or the first sample that fits where that does not."""
        validator: Any = jsonschema.Draft202012Validator(self._held(schema))
        return next(value for value in (given, *_SAMPLES) if validator.is_valid(value))

    def _held(self, schema: Any) -> Any:
        if isinstance(schema, dict):
            return {name: self._held(inner) for name, inner in schema.items() if name not in self.drops}
        return schema

    def _call(self, call: Wanted) -> dict[str, Any]:
        id = "" if "no ids" in self.faults else "c" if "one id for all" in self.faults else f"c{next(self._ids)}"
        return {"id": id, "type": "function", "function": {"name": call[0], "arguments": json.dumps(call[1])}}

    def _finish(self, calls: list[Wanted]) -> str:
        return "tool_calls" if calls and "says stop" not in self.faults else "stop"

    async def _streamed(self, request: web.Request, text: str, calls: list[Wanted]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in self._chunks(text, calls):
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    def _chunks(self, text: str, calls: list[Wanted]) -> Generator[dict[str, Any]]:
        if text:
            yield _chunk({"content": text})
        for index, wanted in enumerate(calls):
            call = self._call(wanted)
            arguments = call["function"]["arguments"]
            if "loses the end of a stream" in self.faults:
                arguments = arguments[:-2] + arguments[-1]
            if "streams whole calls" in self.faults:
                yield _chunk({"tool_calls": [{**call, "index": index}]})
                continue
            yield _chunk({"tool_calls": [{**call, "index": index, "function": {"name": wanted[0], "arguments": ""}}]})
            for at in range(0, len(arguments), 7):
                more = {"id": f"c{next(self._ids)}"} if "new ids" in self.faults else {}
                piece = {"index": index, **more, "function": {"arguments": arguments[at : at + 7]}}
                yield _chunk({"tool_calls": [piece]})
        yield _chunk({}, self._finish(calls))
        if "no usage" not in self.faults:
            yield {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}


def repeating(**more: Any) -> Endpoint:
    """One whose model only repeats what it is given."""
    return Endpoint(reads=_TO_REPEAT, **more)


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@contextmanager
def serving(endpoint: Endpoint) -> Generator[str]:
    """The endpoint on loopback; gives its address."""
    loop = asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/v1/models", endpoint.models)
        app.router.add_post("/v1/chat/completions", endpoint.chat)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        runner = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
        endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield endpoint.url
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
