"""A chat server with scripted answers, in OpenAI's API and in Ollama's, for programs that must not depend on a model.

It calls the first offered tool until there is a result. Then, and without tools, it answers with a text, or with JSON
where the request has a schema.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from lab.loopback_server import loopback_server

TEXT: Final = "It works."
VALUES: Final = {"city": "Rome", "text": "hello", "name": "Rome", "country": "Italy"}
"""The value of each property that the programs' schemas have."""


@contextmanager
def scripted_chat_server() -> Generator[str]:
    """Serve on a free port of this machine, and yield the URL."""
    with loopback_server(_Handler) as url:
        yield url


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_ollama = self.path.endswith("/api/chat")
        is_streamed = bool(body.get("stream", False))
        lines = _ollama_lines(body) if is_ollama else _openai_lines(body, is_streamed)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_streamed and not is_ollama else "application/json")
        self.end_headers()
        for line in lines:
            self.wfile.write(line.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: what a program prints is compared."""


def _answer(body: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The text, or a call as its name and arguments."""
    tools = body.get("tools")
    has_result = any(message["role"] == "tool" for message in body["messages"])
    if tools and not has_result:
        function = tools[0]["function"]
        arguments = {name: VALUES[name] for name in function["parameters"]["properties"]}
        return "", {"name": function["name"], "arguments": arguments}
    if body.get("response_format") or body.get("format"):
        return json.dumps({"name": VALUES["name"], "country": VALUES["country"]}), None
    return TEXT, None


def _ollama_lines(body: Mapping[str, Any]) -> list[str]:
    text, call = _answer(body)
    message = {"role": "assistant", "content": text, **({"tool_calls": [{"function": call}]} if call else {})}
    return [json.dumps({"model": "smol", "message": message, "done": True, "done_reason": "stop"}) + "\n"]


def _openai_lines(body: Mapping[str, Any], is_streamed: bool) -> list[str]:
    text, call = _answer(body)
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if call:
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        message["tool_calls"] = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
    head = {"id": "chatcmpl-1", "created": 0, "model": "smol"}
    reason = "tool_calls" if call else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if not is_streamed:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return [json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})]
    chunk = {**head, "object": "chat.completion.chunk"}
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": message, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": reason},
    ]
    events = [json.dumps({**chunk, "choices": [choice]}) for choice in choices]
    return [f"data: {event}\n\n" for event in [*events, "[DONE]"]]
