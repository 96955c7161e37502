"""The recorder forwards every byte as it arrives, and records the traffic."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.gateway_recorder import ServerSentEvent, events_of, start_recorder

EVENTS = b': hello\n\nevent: a\ndata: {"x": 1}\n\n'
REST = b'data: {"y": "\xc3\xa9"}\n\ndata: [DONE]\n\n'


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    goes_on = threading.Event()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/whole":
            self.send_response(418)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Own", "kept")
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._piece(EVENTS)
        self.goes_on.wait(30)
        self.close_connection = True
        if self.path == "/streamed":
            self._piece(REST)
            self.wfile.write(b"0\r\n\r\n")

    def _piece(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.flush()


@contextmanager
def upstream() -> Generator[str]:
    Upstream.goes_on.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def request(url: str, path: str, body: bytes) -> Generator[http.client.HTTPResponse]:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    connection.request("POST", path, body)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def test_a_whole_answer_is_forwarded_unchanged_and_recorded() -> None:
    with upstream() as url, start_recorder(url) as recorder:
        with request(recorder.url, "/whole", b'{"q": 1}') as answer:
            assert (answer.status, answer.headers["x-own"], answer.read()) == (418, "kept", b'{"q": 1}')
        (exchange,) = recorder.take()
        assert recorder.take() == []
    assert (exchange.path, exchange.request, exchange.status, exchange.content) == (
        "/whole",
        {"q": 1},
        418,
        b'{"q": 1}',
    )
    assert exchange.events == []


def test_a_stream_is_forwarded_as_it_arrives() -> None:
    with upstream() as url, start_recorder(url) as recorder:
        with request(recorder.url, "/streamed", b"no json") as answer:
            assert answer.read1() == EVENTS
            Upstream.goes_on.set()
            assert answer.read() == REST
        (exchange,) = recorder.take()
    assert exchange.request is None
    assert exchange.events == [
        ServerSentEvent("a", {"x": 1}),
        ServerSentEvent("", {"y": "é"}),
        ServerSentEvent("", "[DONE]"),
    ]


def test_a_stream_that_breaks_off_breaks_off_for_the_client_too() -> None:
    with upstream() as url, start_recorder(url) as recorder:
        with request(recorder.url, "/broken", b"{}") as answer:
            Upstream.goes_on.set()
            with pytest.raises(http.client.IncompleteRead):
                answer.read()
        (exchange,) = recorder.take()
    assert exchange.events == [ServerSentEvent("a", {"x": 1})]


@given(st.lists(st.tuples(st.sampled_from(["", "a", "response.done"]), st.dictionaries(st.text(), st.text()))))
def test_events_are_read_as_they_were_written(events: list[tuple[str, dict[str, str]]]) -> None:
    names = [f"event: {name}\n" if name else "" for name, _ in events]
    text = "".join(f"{name}data: {json.dumps(value)}\n\n" for name, (_, value) in zip(names, events, strict=True))
    assert events_of(text.encode()) == [ServerSentEvent(name, value) for name, value in events]
