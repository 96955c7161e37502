"""The recorder hands on every byte as it comes, and keeps what was said."""

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

from lab.gateway_recorder import Sent, events_of, recorded

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
def asked(url: str, path: str, body: bytes) -> Generator[http.client.HTTPResponse]:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    connection.request("POST", path, body)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def test_a_whole_answer_is_handed_on_as_it_is_and_kept() -> None:
    with upstream() as url, recorded(url) as recorder:
        with asked(recorder.url, "/whole", b'{"q": 1}') as answer:
            assert (answer.status, answer.headers["x-own"], answer.read()) == (418, "kept", b'{"q": 1}')
        (kept,) = recorder.taken()
        assert recorder.taken() == []
    assert (kept.path, kept.asked, kept.status, kept.content) == ("/whole", {"q": 1}, 418, b'{"q": 1}')
    assert kept.events == []


def test_a_stream_is_handed_on_while_it_forms() -> None:
    with upstream() as url, recorded(url) as recorder:
        with asked(recorder.url, "/streamed", b"no json") as answer:
            assert answer.read1() == EVENTS
            Upstream.goes_on.set()
            assert answer.read() == REST
        (kept,) = recorder.taken()
    assert kept.asked is None
    assert kept.events == [Sent("a", {"x": 1}), Sent("", {"y": "é"}), Sent("", "[DONE]")]


def test_a_stream_that_breaks_off_breaks_off_for_the_client_too() -> None:
    with upstream() as url, recorded(url) as recorder:
        with asked(recorder.url, "/broken", b"{}") as answer:
            Upstream.goes_on.set()
            with pytest.raises(http.client.IncompleteRead):
                answer.read()
        (kept,) = recorder.taken()
    assert kept.events == [Sent("a", {"x": 1})]


@given(st.lists(st.tuples(st.sampled_from(["", "a", "response.done"]), st.dictionaries(st.text(), st.text()))))
def test_events_are_read_as_they_were_written(events: list[tuple[str, dict[str, str]]]) -> None:
    names = [f"event: {name}\n" if name else "" for name, _ in events]
    written = "".join(f"{name}data: {json.dumps(value)}\n\n" for name, (_, value) in zip(names, events, strict=True))
    assert events_of(written.encode()) == [Sent(name, value) for name, value in events]
