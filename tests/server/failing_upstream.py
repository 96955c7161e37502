"""An upstream with OpenAI's chat API that fails in every way an engine can. The first part of the path says how."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

from lab.loopback_server import loopback_server

HOST, SECRET, WORDS = "10.1.2.3:8443", "sk-live-0123456789abcdef", "UPSTREAM-WORDS"
ENGINE_KEY = "the-operators-own-key"
POISON = "the prompt that this engine cannot bear"
_MESSAGE = f"{WORDS} at https://gpu:{SECRET}@{HOST}/v1, key {SECRET}, given {ENGINE_KEY}"
REFUSALS: Mapping[str, tuple[int, str]] = {
    "bad": (400, ""),
    "unauthorized": (401, ""),
    "forbidden": (403, ""),
    "missing": (404, ""),
    "large": (413, ""),
    "unprocessable": (422, ""),
    "limited": (429, ""),
    "broken": (500, ""),
    "gateway": (502, ""),
    "overloaded": (503, ""),
    "long": (400, "This model's maximum context length is 4096 tokens. "),
}
"""The status of each refusal, and what its message begins with."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ended = Event()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.close_connection = True
        kind = self.path.split("/")[1]
        if kind in REFUSALS:
            self._refuse(*REFUSALS[kind])
        else:
            _ANSWERS[kind](self, body)

    def _refuse(self, status: int, prefix: str = "") -> None:
        error = {"message": prefix + _MESSAGE, "type": "x", "param": "temperature", "code": WORDS}
        data = json.dumps({"error": error}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if status == 429:
            self.send_header("retry-after", "7")
        self.end_headers()
        self.wfile.write(data)

    def _begin(self, *chunks: Any) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            data = f"data: {json.dumps(chunk)}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _answer(self, *chunks: Any) -> None:
        self._begin(*chunks)
        self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def cut(self, body: dict[str, Any]) -> None:
        self._begin(_text("It begins well "))

    def cut_at_once(self, body: dict[str, Any]) -> None:
        self._begin()

    def reported(self, body: dict[str, Any]) -> None:
        self._answer({"error": {"message": _MESSAGE, "code": WORDS}})

    def reported_late(self, body: dict[str, Any]) -> None:
        self._answer(_text("It begins well "), {"error": {"message": _MESSAGE, "code": WORDS}})

    def garbage(self, body: dict[str, Any]) -> None:
        data = f"<html>{_MESSAGE}</html>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def silent(self, body: dict[str, Any]) -> None:
        self.ended.wait()

    def well(self, body: dict[str, Any]) -> None:
        self._answer(_text("All is well."), _FINISH)

    def poisoned(self, body: dict[str, Any]) -> None:
        if POISON in json.dumps(body["messages"]):
            self._refuse(500)
        else:
            self.well(body)

    def calls_tool(self, body: dict[str, Any]) -> None:
        """Calls the first tool, then answers."""
        if any(message["role"] == "tool" for message in body["messages"]):
            self.well(body)
        else:
            self._answer(_call(body["tools"][0]["function"]["name"]), _CALLS)

    def fails_after_tool(self, body: dict[str, Any]) -> None:
        if any(message["role"] == "tool" for message in body["messages"]):
            self._refuse(500)
        else:
            self.calls_tool(body)


def _chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


def _text(text: str) -> dict[str, Any]:
    return _chunk({"role": "assistant", "content": text})


def _call(name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    return _chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})


_FINISH, _CALLS = _chunk({}, "stop"), _chunk({}, "tool_calls")
_ANSWERS: Mapping[str, Callable[[_Handler, dict[str, Any]], None]] = {
    "cut": _Handler.cut,
    "cut_at_once": _Handler.cut_at_once,
    "reported": _Handler.reported,
    "reported_late": _Handler.reported_late,
    "garbage": _Handler.garbage,
    "silent": _Handler.silent,
    "well": _Handler.well,
    "poisoned": _Handler.poisoned,
    "calls_tool": _Handler.calls_tool,
    "fails_after_tool": _Handler.fails_after_tool,
}
FAILURES = (*REFUSALS, "cut", "cut_at_once", "reported", "reported_late", "garbage", "silent")


@contextmanager
def failing_upstream() -> Generator[str]:
    """Serve until the end of the block, and yield the URL, without the part that says how to fail."""
    _Handler.ended.clear()
    with loopback_server(_Handler) as url:
        try:
            yield url
        finally:
            _Handler.ended.set()


def closed_url() -> str:
    """A URL at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def engine_config(name: str, url: str, *options: str) -> str:
    """The configuration of an engine that fails in this way, and is asked once."""
    query = "&".join([f"url={url}/{name}/v1", f"key={ENGINE_KEY}", "tries=1", *options])
    return f'[engines.{name}]\nuse = "openai:m?{query}"'
