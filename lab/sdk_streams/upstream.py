"""A chat server that misbehaves on request: it streams a call in small pieces, with the fault that is asked for.

The fault is the user's message: "cut 30" ends with the reason `length` after 30 pieces, "broken 30" closes the
connection there, "unfit", "not offered" and "not json" are calls that must not run, "whole" is a good one.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from lab.loopback_server import loopback_server
from lab.sdk_streams.faults import ARGUMENTS, TOOL

_PIECE: Final = 4
_TEXT: Final = json.dumps(ARGUMENTS)
PIECES: Final = [_TEXT[at : at + _PIECE] for at in range(0, len(_TEXT), _PIECE)]
_CALLS: Final = {
    "unfit": (TOOL, json.dumps({**ARGUMENTS, "amount": "a lot"})),
    "not offered": ("delete_everything", _TEXT),
    "not json": (TOOL, _TEXT[:-2] + ",,"),
}


@contextmanager
def faulty_upstream() -> Generator[str]:
    """Serve on a free port of this machine, and yield the URL."""
    with loopback_server(_Handler) as url:
        yield f"{url}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self._send(json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}), "application/json")

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        deltas, reason = _answer(_fault(body["messages"]))
        chunks = [_chunk(delta) for delta in deltas]
        if reason:
            chunks += [_chunk({}, reason), "data: [DONE]\n\n"]
        # Without a reason the connection ends in the middle of the answer, as that of a crashed engine does.
        self._send("".join(chunks), "text/event-stream")

    def _send(self, text: str, media_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _fault(messages: list[dict[str, Any]]) -> str:
    """The first user message; a repair adds others after it."""
    content = next(message["content"] for message in messages if message["role"] == "user")
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _answer(fault: str) -> tuple[list[dict[str, Any]], str]:
    kind, _, count = fault.partition(" ")
    if kind in ("cut", "broken"):
        return _call(TOOL, PIECES[: int(count)]), "length" if kind == "cut" else ""
    name, text = _CALLS.get(fault, (TOOL, _TEXT))
    return _call(name, [text]), "tool_calls"


def _call(name: str, pieces: list[str]) -> list[dict[str, Any]]:
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
    rest = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    return [{"role": "assistant", "tool_calls": [first]}, *rest]


def _chunk(delta: dict[str, Any], reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n"
