"""An HTTP API as tools: each operation of its OpenAPI document is one. Reads run, everything else waits for approval.

The API runs in this process, on loopback, so that the program works offline. Yours would be the file of an OpenAPI
document: `openapi("shop.json", key=ApiKey(...))`. See docs/how-to/openapi.md.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from engine_option import engine_of, options

from ferrule import ToolCall
from ferrule.sources import openapi

ORDER = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1, "maximum": 3}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "A shop", "version": "1"},
    "paths": {
        "/orders/{id}": {
            "get": {"operationId": "get_order", "summary": "Get an order", "parameters": [ORDER]},
            "delete": {"operationId": "cancel_order", "summary": "Cancel an order", "parameters": [ORDER]},
        }
    },
}


ORDERS = {1: "a kettle", 2: "two cups", 3: "a lamp"}


class Shop(BaseHTTPRequestHandler):
    """The API: it prints what it is asked."""

    def do_GET(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        ORDERS[self.number] = "cancelled"
        self.answer()

    @property
    def number(self) -> int:
        return int(self.path.rpartition("/")[2])

    def answer(self) -> None:
        body = json.dumps({"id": self.number, "order": ORDERS[self.number]}).encode()
        print(f"the shop gets: {self.command} {self.path}\nthe shop answers: {body.decode()}")
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal for the conversation."""


@contextmanager
def shop() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def approve(call: ToolCall) -> bool:
    try:
        return input(f"run {call.name} {call.arguments}? [y/n] ").strip().lower() == "y"
    except EOFError:
        return False


async def main() -> None:
    args = options(__doc__).parse_args()
    with shop() as url:
        async with engine_of(args) as engine, openapi({**DOCUMENT, "servers": [{"url": url}]}) as operations:
            for question, choice in (
                ("Get the order with id 2.", "get_order"),
                ("Cancel the order with id 2.", "cancel_order"),
            ):
                print(f"\nyou: {question}")
                await engine.run(
                    question,
                    tools=operations,
                    # The first call is named, because the default model chooses poorly; "auto" lets it choose.
                    tool_choice=choice,
                    tool_choice_policy="required_first_hop",
                    parallel_tool_calls=False,
                    decide=approve,
                    max_iterations=1,
                    max_tokens=40,
                    temperature=0.0,
                )


if __name__ == "__main__":
    asyncio.run(main())
