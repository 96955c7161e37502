"""A test upstream with OpenAI's chat API whose answers never end by themselves."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PAUSE = 0.05
_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}


@dataclass(slots=True)
class EndlessUpstream:
    url: str
    begun: int = 0
    left: int = 0
    """How many of its answers were broken off by their reader."""
    stop: threading.Event = field(default_factory=threading.Event)


@contextmanager
def endless_upstream() -> Generator[EndlessUpstream]:
    upstream = EndlessUpstream("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            upstream.begun += 1
            choice = {"index": 0, "delta": {"role": "assistant", "content": "on "}, "finish_reason": None}
            line = f"data: {json.dumps({**_CHUNK, 'choices': [choice]})}\n\n".encode()
            try:
                while not upstream.stop.wait(_PAUSE):
                    self.wfile.write(line)
                    self.wfile.flush()
            except OSError:
                upstream.left += 1
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    upstream.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
