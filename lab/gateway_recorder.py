"""Recorder: a proxy between a client and a gateway that forwards every byte as it arrives and records the traffic.

Standard library only, one thread per connection. Its own latency is never part of a measurement.
"""

import http.client
import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

_PIECE: Final = 65_536
_OF_ONE_CONNECTION: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
_DONE: Final = "[DONE]"
_SECONDS_TO_END: Final = 30.0


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event: its name, which may be empty, and its JSON. OpenAI's final `[DONE]` stays text."""

    name: str
    value: Any

    @property
    def is_done(self) -> bool:
        return self.value == _DONE


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as sent over HTTP. `request` is None if the body was not JSON."""

    method: str
    path: str
    headers: dict[str, str]
    request: Any
    status: int
    media_type: str
    content: bytes

    @property
    def is_stream(self) -> bool:
        return self.media_type.startswith("text/event-stream")

    @property
    def events(self) -> list[ServerSentEvent]:
        return events_of(self.content) if self.is_stream else []


@dataclass(slots=True)
class Recorder:
    """The proxy that clients connect to. `take` returns the exchanges since the last call."""

    url: str = ""
    _exchanges: list[Exchange] = field(default_factory=list[Exchange])
    _under_way: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def begin(self) -> None:
        with self._changed:
            self._under_way += 1

    def record(self, exchange: Exchange) -> None:
        with self._changed:
            self._under_way -= 1
            self._exchanges.append(exchange)
            self._changed.notify_all()

    def take(self) -> list[Exchange]:
        """Return the exchanges so far. Waits for open ones: a client may finish before its stream does."""
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0, _SECONDS_TO_END)
            exchanges, self._exchanges = self._exchanges, []
        return exchanges


@contextmanager
def start_recorder(upstream: str) -> Generator[Recorder]:
    """Start a recorder in front of the gateway at this URL."""
    recorder = Recorder()
    address = urlsplit(upstream)

    class Handler(_ForwardingHandler):
        where = (address.hostname or "127.0.0.1", address.port or 80)
        to = recorder

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    recorder.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: a client may reset its connection when it is done."""


class _ForwardingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    where: tuple[str, int]
    to: Recorder

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        self._forward()

    def do_GET(self) -> None:
        self._forward()

    def do_HEAD(self) -> None:
        self._forward()

    def do_DELETE(self) -> None:
        self._forward()

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.to.begin()
        upstream = http.client.HTTPConnection(*self.where)
        pieces: list[bytes] = []
        status, media_type = 0, ""
        try:
            headers_to_forward = {
                name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_CONNECTION
            }
            upstream.request(self.command, self.path, body, headers_to_forward)
            answer = upstream.getresponse()
            status, media_type = answer.status, answer.headers.get("content-type", "")
            self._send(answer, pieces)
        except (OSError, http.client.HTTPException):
            # One side closed the connection: close the other too, as would happen without the recorder.
            self.close_connection = True
        finally:
            upstream.close()
            request = _json(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.to.record(Exchange(self.command, self.path, headers, request, status, media_type, b"".join(pieces)))

    def _send(self, answer: http.client.HTTPResponse, pieces: list[bytes]) -> None:
        length = answer.headers.get("content-length")
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", length)
        self.end_headers()
        while piece := answer.read1(_PIECE):
            pieces.append(piece)
            self.wfile.write(piece if length is not None else b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
        if length is None:
            self.wfile.write(b"0\r\n\r\n")


def events_of(content: bytes) -> list[ServerSentEvent]:
    """The events of a stream, without comments."""
    events: list[ServerSentEvent] = []
    for block in content.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        name = _field(lines, "event: ")
        data = "\n".join(line.removeprefix("data: ") for line in lines if line.startswith("data: "))
        if data:
            events.append(ServerSentEvent(name, data if data == _DONE else json.loads(data)))
    return events


def _field(lines: Sequence[str], start: str) -> str:
    return next((line.removeprefix(start) for line in lines if line.startswith(start)), "")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
