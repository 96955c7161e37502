"""Recorder: stands between a client and a gateway, hands on every byte as it comes, and keeps what was said.

Only the standard library, and a thread for each connection: what it adds in time is nobody's measurement.
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
class Sent:
    """One server-sent event: its name, which may be empty, and its JSON; OpenAI's last word stays a text."""

    name: str
    value: Any

    @property
    def is_done(self) -> bool:
        return self.value == _DONE


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as they went over the wire. `asked` is None where the body was no JSON."""

    method: str
    path: str
    headers: dict[str, str]
    asked: Any
    status: int
    media_type: str
    content: bytes

    @property
    def is_stream(self) -> bool:
        return self.media_type.startswith("text/event-stream")

    @property
    def events(self) -> list[Sent]:
        return events_of(self.content) if self.is_stream else []


@dataclass(slots=True)
class Recorder:
    """Where clients ask. `taken` gives what was said since it was last asked."""

    url: str = ""
    _kept: list[Exchange] = field(default_factory=list[Exchange])
    _under_way: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def begin(self) -> None:
        with self._changed:
            self._under_way += 1

    def keep(self, exchange: Exchange) -> None:
        with self._changed:
            self._under_way -= 1
            self._kept.append(exchange)
            self._changed.notify_all()

    def taken(self) -> list[Exchange]:
        """Waits for what is under way: a client is done with a stream before the stream is."""
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0, _SECONDS_TO_END)
            kept, self._kept = self._kept, []
        return kept


@contextmanager
def recorded(upstream: str) -> Generator[Recorder]:
    """A recorder before the gateway at this address."""
    recorder = Recorder()
    address = urlsplit(upstream)

    class Handler(_Forwarding):
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
        """A client that resets its connection when it is done is not worth a word."""


class _Forwarding(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    where: tuple[str, int]
    to: Recorder

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed: what was said is kept."""

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
            given = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_CONNECTION}
            upstream.request(self.command, self.path, body, given)
            answer = upstream.getresponse()
            status, media_type = answer.status, answer.headers.get("content-type", "")
            self._send(answer, pieces)
        except (OSError, http.client.HTTPException):
            # One side left in the middle: the other is left, too, and sees what it would have seen.
            self.close_connection = True
        finally:
            upstream.close()
            asked = _json(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.to.keep(Exchange(self.command, self.path, headers, asked, status, media_type, b"".join(pieces)))

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


def events_of(content: bytes) -> list[Sent]:
    """The events of a stream. Comments are not events."""
    found: list[Sent] = []
    for block in content.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        name = _field(lines, "event: ")
        data = "\n".join(line.removeprefix("data: ") for line in lines if line.startswith("data: "))
        if data:
            found.append(Sent(name, data if data == _DONE else json.loads(data)))
    return found


def _field(lines: Sequence[str], start: str) -> str:
    return next((line.removeprefix(start) for line in lines if line.startswith(start)), "")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
