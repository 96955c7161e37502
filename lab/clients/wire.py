"""A client's HTTP without a network: requests are recorded, and responses are prepared."""

import importlib
import json
from collections.abc import Sequence
from typing import Any

ADDRESS = "http://stand-in.invalid/v1"


class Wire:
    """One prepared response: `events` as server-sent events, with names if `named`, or a whole `body`."""

    def __init__(
        self, *, events: Sequence[dict[str, Any]] = (), named: bool = False, body: Any = None, done: bool = False
    ) -> None:
        self.sent: dict[str, Any] = {}
        self._body = body
        names = [f"event: {event['type']}\n" if named else "" for event in events]
        pieces = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)]
        self._stream = "".join(pieces) + "data: [DONE]\n\n" * done

    def client(self, *later: "Wire") -> Any:
        """An HTTP client; `later` are the responses to the requests after the first."""
        httpx: Any = importlib.import_module("httpx2")
        wires = iter((self, *later))

        def answer(request: Any) -> Any:
            return next(wires).answer(request)

        return httpx.Client(transport=httpx.MockTransport(answer))

    def answer(self, request: Any) -> Any:
        httpx: Any = importlib.import_module("httpx2")
        self.sent = json.loads(request.content or b"{}")
        if self._body is not None:
            return httpx.Response(200, json=self._body)
        return httpx.Response(200, content=self._stream.encode(), headers={"content-type": "text/event-stream"})
