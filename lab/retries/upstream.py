"""An OpenAI-compatible engine that fails once for each request: before, during or after the call that it makes.

The user's message is "Pay 12: fault." It calls `pay` first, and says "Done 12." after the result. Each gateway has a
URL of its own, so that a fault can kill the one that asks.
"""

import json
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import Any, Final

from lab.loopback_server import loopback_server

FAULTS: Final = (
    "none",
    "503 before",
    "broken in the call",
    "503 after",
    "503 after, for ever",
    "broken in the text",
    "killed before",
    "killed in the effect",
    "killed after",
)
KILLS: Final = tuple(fault for fault in FAULTS if fault.startswith("killed"))
_PATH: Final = re.compile(r"/gateway(\d+)/")
_QUESTION: Final = re.compile(r"Pay (\d+): (.*)\.")


@dataclass(slots=True)
class Failures:
    """The faults that have happened, each once for a request. `kill` kills a gateway by its number."""

    kill: Callable[[int], None]
    happened: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    lock: Lock = field(default_factory=Lock)

    def happens(self, number: str, fault: str) -> bool:
        with self.lock:
            if fault.endswith("for ever"):
                return True
            if (number, fault) in self.happened:
                return False
            self.happened.add((number, fault))
            return True


@contextmanager
def failing_upstream(kill: Callable[[int], None]) -> Generator[str]:
    """Serve on a free port of this machine, and yield the URL."""
    failures = Failures(kill)

    class Handler(_Handler):
        pass

    Handler.failures = failures
    with loopback_server(Handler) as url:
        yield url


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    failures: Failures

    def do_GET(self) -> None:
        self._send(200, json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}), "application/json")

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        messages: list[dict[str, Any]] = body["messages"]
        match = _QUESTION.search(_text(next(one for one in messages if one["role"] == "user")))
        assert match is not None
        number, fault = match.groups()
        stage = "after" if any(one["role"] == "tool" for one in messages) else "before"
        deltas = _text_deltas(number) if stage == "after" else _call_deltas(number, fault)
        happens = self.failures.happens
        if fault.startswith(f"503 {stage}") and happens(number, fault):
            self._send(503, json.dumps({"error": {"message": "overloaded"}}), "application/json")
        elif fault == f"killed {stage}" and happens(number, fault):
            gateway = _PATH.match(self.path)
            assert gateway is not None
            self.failures.kill(int(gateway[1]))
        elif (fault, stage) in (("broken in the call", "before"), ("broken in the text", "after")) and happens(
            number, fault
        ):
            # Chunked, and without the last chunk: as an engine that is killed leaves it.
            self._send(200, "".join(map(_chunk, deltas[:2])), "text/event-stream", is_whole=False)
        else:
            reason = "stop" if stage == "after" else "tool_calls"
            chunks = [*map(_chunk, deltas), _chunk({}, reason), "data: [DONE]\n\n"]
            self._send(200, "".join(chunks), "text/event-stream")

    def _send(self, status: int, text: str, media_type: str, *, is_whole: bool = True) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # The gateway that asks may have been killed.
        with suppress(OSError):
            self.wfile.write(b"%x\r\n%s\r\n%s" % (len(data), data, b"0\r\n\r\n" if is_whole else b""))
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _call_deltas(number: str, fault: str) -> list[dict[str, Any]]:
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "pay", "arguments": ""}}
    arguments = json.dumps({"number": int(number), "fault": fault})
    pieces = (arguments[:9], arguments[9:])
    rest = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    return [{"role": "assistant", "tool_calls": [first]}, *rest]


def _text_deltas(number: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": "Do"}, {"content": "ne "}, {"content": f"{number}."}]


def _chunk(delta: dict[str, Any], reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n"
