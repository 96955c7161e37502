"""A test server with OpenAI's chat and transcription API. It keeps what it is sent, and gives one answer to all."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DESCRIPTION = "An orange sky over a blue sea."
WORDS = "Bring two eggs."
_ANSWER = {"choices": [{"message": {"role": "assistant", "content": DESCRIPTION}}], "text": WORDS}


@dataclass(frozen=True, slots=True)
class FormPart:
    name: str
    """The file's name; empty for other fields."""
    content: bytes


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    path: str
    headers: Mapping[str, str]
    body: bytes

    def form(self) -> dict[str, FormPart]:
        """The parts of a form, split at its boundary as RFC 7578 says, without a library."""
        boundary = b"--" + self.headers["content-type"].partition("boundary=")[2].encode()
        first, *parts, last = self.body.split(boundary)
        assert (first, last) == (b"", b"--\r\n")
        found: dict[str, FormPart] = {}
        for part in parts:
            head, _, content = part.partition(b"\r\n\r\n")
            names = head.decode().split('"')
            assert content.endswith(b"\r\n")
            found[names[1]] = FormPart(names[3] if len(names) > 3 else "", content[:-2])
        return found


@dataclass(slots=True)
class ModelEndpoint:
    url: str
    status: int = 200
    answer: Any = field(default_factory=lambda: _ANSWER)
    requests: list[RecordedRequest] = field(default_factory=list[RecordedRequest])


@contextmanager
def model_endpoint() -> Generator[ModelEndpoint]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            endpoint.requests.append(RecordedRequest(self.path, headers, body))
            self.send_response(endpoint.status)
            if endpoint.status == 302:
                self.send_header("location", f"{endpoint.url}/elsewhere")
            self.end_headers()
            self.wfile.write(json.dumps(endpoint.answer).encode())

        def do_GET(self) -> None:
            self.do_POST()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = ModelEndpoint(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
