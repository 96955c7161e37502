"""A model on OpenAI's API whose every word the test decides, and which can be held in the middle of a reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

from lab.loopback_server import loopback_server
from waiting import PATIENCE


@dataclass(frozen=True, slots=True)
class Said:
    """One reply: a text, then calls as name and arguments. The calls are written when `until` is set.

    `tokens` are those of the prompt and of the reply, if the model reports them.
    """

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    until: Event | None = None
    tokens: tuple[int, int] | None = None


@dataclass(slots=True)
class ScriptedModel:
    """`reply` gets the messages and the names of the tools that a request has. Every request is kept."""

    reply: Callable[[list[dict[str, Any]], list[str]], Said]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def tool_names(self, at: int = -1) -> list[str]:
        return [one["function"]["name"] for one in self.requests[at].get("tools", [])]


def results_in(messages: list[dict[str, Any]]) -> list[str]:
    """The results after the last message of the user."""
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    return [message["content"] for message in messages[last:] if message["role"] == "tool"]


@contextmanager
def scripted_model(reply: Callable[[list[dict[str, Any]], list[str]], Said]) -> Generator[ScriptedModel]:
    model = ScriptedModel(reply)

    class Handler(_Handler):
        pass

    Handler.model = model
    with loopback_server(Handler) as url:
        model.url = f"{url}/v1"
        yield model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    model: ScriptedModel

    def do_GET(self) -> None:
        self._head("application/json")
        self.wfile.write(json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.model.requests.append(body)
        number = len(self.model.requests)
        said = self.model.reply(body["messages"], self.model.tool_names(number - 1))
        if not body.get("stream"):
            # The gateway streams answers from every engine. Only a repair asks for a whole reply.
            self._whole(said, number)
            return
        self._head("text/event-stream")
        for at in range(0, len(said.text), 3):
            self._chunk({"content": said.text[at : at + 3]})
        if said.until is not None:
            assert said.until.wait(PATIENCE)
        for index, (name, arguments) in enumerate(said.calls):
            written = json.dumps(arguments, ensure_ascii=False)
            call = {"index": index, "id": f"call_{number}_{index}", "type": "function"}
            self._chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
            for at in range(0, len(written), 5):
                self._chunk({"tool_calls": [{"index": index, "function": {"arguments": written[at : at + 5]}}]})
        self._chunk({}, "tool_calls" if said.calls else "stop", said.tokens)
        self.wfile.write(b"data: [DONE]\n\n")

    def _whole(self, said: Said, number: int) -> None:
        calls = [
            {
                "id": f"call_{number}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for at, (name, given) in enumerate(said.calls)
        ]
        message = {"role": "assistant", "content": said.text or None, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        self._head("application/json")
        self.wfile.write(json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode())

    def _head(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, tokens: tuple[int, int] | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        chunk["choices"] = [choice]
        if tokens is not None:
            chunk["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
