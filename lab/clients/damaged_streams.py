"""How the clients read a damaged stream: its bytes are passed as they are, without a network and without checks."""

import importlib
import json
from collections.abc import Mapping
from typing import Any

_ADDRESS = "http://stand-in.invalid"


def _http(raw: str) -> Any:
    httpx: Any = importlib.import_module("httpx2")

    def answer(_: Any) -> Any:
        return httpx.Response(200, content=raw.encode(), headers={"content-type": "text/event-stream"})

    return httpx.Client(transport=httpx.MockTransport(answer))


def _client(module: str, name: str, raw: str, address: str) -> Any:
    client_class: Any = getattr(importlib.import_module(module), name)
    return client_class(api_key="none", base_url=address, http_client=_http(raw), max_retries=0)


def chat(request: Mapping[str, Any]) -> Mapping[str, Any]:
    client = _client("openai", "OpenAI", request["raw"], f"{_ADDRESS}/v1")
    with client.chat.completions.stream(model="m", messages=[]) as stream:
        # The client reports that a call is complete when it sees the next one or the finish reason.
        done = sum(event.type == "tool_calls.function.arguments.done" for event in stream)
        message = stream.get_final_completion().choices[0].message
    calls: list[Any] = message.tool_calls or []
    return {
        "calls": [[call.id, call.function.name, call.function.arguments] for call in calls],
        "text": message.content or "",
        "done": done,
    }


def responses(request: Mapping[str, Any]) -> Mapping[str, Any]:
    client = _client("openai", "OpenAI", request["raw"], f"{_ADDRESS}/v1")
    with client.responses.stream(model="m", input="x") as stream:
        for _ in stream:
            pass
        response = stream.get_final_response()
    calls = [item for item in response.output if item.type == "function_call"]
    return {"calls": [[call.call_id, call.name, call.arguments] for call in calls], "text": response.output_text}


def messages(request: Mapping[str, Any]) -> Mapping[str, Any]:
    client = _client("anthropic", "Anthropic", request["raw"], _ADDRESS)
    with client.messages.stream(model="m", max_tokens=9, messages=[]) as stream:
        for _ in stream:
            pass
        message = stream.get_final_message()
    return {
        "calls": [[one.id, one.name, json.dumps(one.input)] for one in message.content if one.type == "tool_use"],
        "text": "".join(one.text for one in message.content if one.type == "text"),
        "tokens": message.usage.output_tokens,
    }
