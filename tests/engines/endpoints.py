"""A test endpoint with OpenAI's chat API whose model follows instructions; each fault is one thing that it gets wrong.

It runs in its own thread, so that synchronous programs can use it too.
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

ModelCall = tuple[str, dict[str, Any]]
_INSTRUCTION = re.compile(r"the tool (\w+) with exactly these arguments: (\{.*?\})(?= and the tool|\. Call nothing)")
_REPETITION = re.compile(r"<tool_call>\n(\{.*?\})\n</tool_call>")
_VALUES = (1, 2, "red", "abc", "a note", True, [1, 2], {"inner": 1})
_SAMPLES: list[dict[str, Any]] = [
    *({"value": value} for value in _VALUES),
    *({"value": value, "unit": "m"} for value in _VALUES),
    *({name: "a long enough text"} for name in ("text", "city")),
    {"mood": "good", "score": 1},
    {"city": "Rome"},
]


@dataclass
class Endpoint:
    """`faults` are its defects; `ignored_keywords` are not enforced; `prompt_pattern` is what its model reacts to."""

    faults: frozenset[str] = frozenset()
    ignored_keywords: frozenset[str] = frozenset()
    prompt_pattern: re.Pattern[str] | None = _INSTRUCTION
    key: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    _ids: Any = field(default_factory=count)

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "small"}, {"id": "large"}]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        refusal = self._refusal(body, request.headers.get("Authorization", ""))
        if refusal:
            return web.json_response({"error": {"message": "that will not do"}}, status=refusal)
        text, calls = self._answer(body)
        is_cut_off = bool(text) and "text before the call" in self.faults and body.get("tool_choice") == "required"
        if body.get("stream"):
            return await self._stream(request, text, calls)
        message = {"role": "assistant", "content": text or None, "tool_calls": [self._call(call) for call in calls]}
        choice = {"index": 0, "message": message, "finish_reason": "length" if is_cut_off else self._finish(calls)}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})

    def _refusal(self, body: Mapping[str, Any], key: str) -> int:
        if self.key and key != f"Bearer {self.key}":
            return 401
        if "max_tokens" in body and "new limit" in self.faults:
            return 400
        if body.get("tools") and "refuses tools" in self.faults:
            return 400
        if body.get("tools") and body.get("tool_choice", "auto") == "auto" and "refuses auto" in self.faults:
            # As vLLM does without --enable-auto-tool-choice.
            return 400
        if isinstance(body.get("tool_choice"), dict) and "no objects" in self.faults:
            return 422
        if "nosuch" in json.dumps(body.get("tools", [])) and "takes any schema" not in self.faults:
            return 500 if "fails on a bad schema" in self.faults else 400
        return 0

    def _answer(self, body: Mapping[str, Any]) -> tuple[str, list[ModelCall]]:
        tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", [])}
        choice = body.get("tool_choice", "auto")
        calls = [
            (name, arguments)
            for name, arguments in self._requested_calls(body["messages"][-1]["content"])
            if name in tools
        ]
        calls = self._apply_choice(choice, tools, calls)
        if body.get("parallel_tool_calls") is False and "ignores parallel" not in self.faults:
            calls = calls[:1]
        is_enforced = choice == "required" and "required alone holds no schema" not in self.faults
        calls = [
            (
                name,
                self._fit(tools[name]["parameters"], model_arguments)
                if is_enforced or tools[name].get("strict")
                else model_arguments,
            )
            for name, model_arguments in calls
        ]
        if calls and choice == "auto" and "prints its calls" in self.faults:
            return "\n".join(f"```json\n{json.dumps({'name': n, 'arguments': a})}\n```" for n, a in calls), []
        if calls:
            return "", calls
        response_format = body.get("response_format")
        if response_format and "ignores answer schema" not in self.faults:
            return json.dumps(self._fit(response_format["json_schema"]["schema"], {})), []
        return "Hello.", []

    def _apply_choice(self, choice: Any, tools: Mapping[str, Any], calls: list[ModelCall]) -> list[ModelCall]:
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

    def _requested_calls(self, prompt: str) -> list[ModelCall]:
        if self.prompt_pattern is _INSTRUCTION:
            return [(name, json.loads(arguments)) for name, arguments in _INSTRUCTION.findall(prompt)]
        if self.prompt_pattern is _REPETITION:
            parsed = [json.loads(call) for call in _REPETITION.findall(prompt)]
            return [(call["name"], call["arguments"]) for call in parsed]
        return []

    def _fit(self, schema: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments if they match the schema, or else the first sample that does."""
        validator: Any = jsonschema.Draft202012Validator(self._without_ignored(schema))
        return next(value for value in (arguments, *_SAMPLES) if validator.is_valid(value))

    def _without_ignored(self, schema: Any) -> Any:
        if isinstance(schema, dict):
            return {
                name: self._without_ignored(inner)
                for name, inner in schema.items()
                if name not in self.ignored_keywords
            }
        return schema

    def _call(self, call: ModelCall) -> dict[str, Any]:
        id = "" if "no ids" in self.faults else "c" if "one id for all" in self.faults else f"c{next(self._ids)}"
        return {"id": id, "type": "function", "function": {"name": call[0], "arguments": json.dumps(call[1])}}

    def _finish(self, calls: list[ModelCall]) -> str:
        return "tool_calls" if calls and "says stop" not in self.faults else "stop"

    async def _stream(self, request: web.Request, text: str, calls: list[ModelCall]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in self._chunks(text, calls):
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    def _chunks(self, text: str, calls: list[ModelCall]) -> Generator[dict[str, Any]]:
        if text:
            yield _chunk({"content": text})
        for index, model_call in enumerate(calls):
            call = self._call(model_call)
            arguments = call["function"]["arguments"]
            if "loses the end of a stream" in self.faults:
                arguments = arguments[:-2] + arguments[-1]
            if "streams whole calls" in self.faults:
                yield _chunk({"tool_calls": [{**call, "index": index}]})
                continue
            yield _chunk(
                {"tool_calls": [{**call, "index": index, "function": {"name": model_call[0], "arguments": ""}}]}
            )
            for at in range(0, len(arguments), 7):
                more = {"id": f"c{next(self._ids)}"} if "new ids" in self.faults else {}
                piece = {"index": index, **more, "function": {"arguments": arguments[at : at + 7]}}
                yield _chunk({"tool_calls": [piece]})
        yield _chunk({}, self._finish(calls))
        if "no usage" not in self.faults:
            yield {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}


def repeating_endpoint(**more: Any) -> Endpoint:
    """An endpoint whose model only repeats calls."""
    return Endpoint(prompt_pattern=_REPETITION, **more)


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@contextmanager
def serve_endpoint(endpoint: Endpoint) -> Generator[str]:
    """Serve the endpoint on loopback and yield its address."""
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
