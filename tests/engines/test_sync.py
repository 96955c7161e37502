"""Synchronous programs: what they opened is closed when nobody has it any more, and when they end."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A server and a client in one program, so that nothing but its output has to be compared.
PROGRAM = """
import gc, json, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ferrule import load_engine

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {{"role": "assistant", "content": "hello"}}
        body = json.dumps({{"choices": [{{"index": 0, "message": message, "finish_reason": "stop"}}]}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
engine = load_engine(f"openai:smol?url=127.0.0.1:{{server.server_port}}/v1&is_streamed=false", key="k")
print(engine.ask_sync("hi").text)
{end}
"""


@pytest.mark.parametrize(
    "end",
    [
        "",
        "engine.close_sync()",
        "engine = None; gc.collect(); time.sleep(0.2)",
        "with engine: print(engine.ask_sync('again').text)",
        "raise SystemExit(0)",
    ],
)
def test_a_program_that_ends_leaves_no_session_open(end: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROGRAM.format(end=end)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[0] == "hello"
