"""A fake upstream with a given pace, for measuring gateways.

It implements OpenAI's chat API and raw completions. `max_tokens` sets the number of events, and the path sets the
interval in milliseconds: `/20/v1/chat/completions` sends one every 20 ms, `/0/...` all at once. With `/~20/...` the
times are random, and 20 ms is the mean: events of different streams come alone. `/stop` holds all streams after their
first word, so that many can be opened, and `/start` lets them go. It uses no framework, so that it is never the
bottleneck.
"""

import asyncio
import json
import random
import sys
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, Final

_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END: Final = b"0\r\n\r\n"
_FIRST_DELTAS: Final = 2
"""The role and the first word come at once."""
_WORD: Final = "word "
_TOOL: Final = "take_note"
_BEFORE: Final = f'<tool_call>\n{{"name": "{_TOOL}", "arguments": {{"text": "'
_AFTER: Final = '"}}\n</tool_call>'


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(value: Any) -> bytes:
    return _chunk(b"data: " + json.dumps(value).encode() + b"\n\n")


def interval(pace: str) -> Callable[[], float]:
    """The seconds before the next event, each time that it is called."""
    seconds = int(pace.removeprefix("~")) / 1000
    return (lambda: random.expovariate(1 / seconds)) if pace.startswith("~") else lambda: seconds


def chat_deltas(count: int, has_tools: bool) -> Iterator[dict[str, Any]]:
    """The deltas of an answer with `count` events. They are made one by one: a long stream must not take memory."""
    if not has_tools:
        return chain(({"role": "assistant", "content": ""},), repeat({"content": _WORD}, count))
    first_delta = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": _TOOL, "arguments": '{"text": "'},
    }
    parts = chain(repeat(_WORD, count), ('"}',))
    rest = ({"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in parts)
    return chain(({"role": "assistant", "tool_calls": [first_delta]},), rest)


def completion_texts(count: int, has_tools: bool) -> Iterator[str]:
    """The same answer as raw text, in the Hermes format."""
    words = repeat(_WORD, count)
    return chain((_BEFORE,), words, (_AFTER,)) if has_tools else words


class Upstream:
    """Serves connections, one request after another on each."""

    def __init__(self) -> None:
        self._is_started = asyncio.Event()
        self._is_started.set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        _, path, _ = head[0].split(" ", 2)
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        pace, _, rest = path.lstrip("/").partition("/")
        request: Any = json.loads(body or b"{}")
        if rest.endswith("models"):
            self._whole(writer, {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 32768}]})
        elif rest.endswith("completions"):
            await self._completion(reader, writer, request, interval(pace), is_chat="chat" in rest)
        elif pace in ("start", "stop"):
            (self._is_started.set if pace == "start" else self._is_started.clear)()
            self._whole(writer, {})
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        return True

    async def _completion(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        request: Any,
        pause: Callable[[], float],
        *,
        is_chat: bool,
    ) -> None:
        count, has_tools = (
            int(request.get("max_tokens") or request.get("max_completion_tokens") or 8),
            _has_tools(request),
        )
        usage = {"prompt_tokens": 10, "completion_tokens": count, "total_tokens": 10 + count}
        base = {"id": "x", "created": 1, "model": "m"}
        if is_chat and not request.get("stream"):
            message: dict[str, Any] = {"role": "assistant", "content": _WORD * count}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._whole(writer, {**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        writer.write(_HEAD)
        kind = "chat.completion.chunk" if is_chat else "text_completion"
        deltas = chat_deltas(count, has_tools) if is_chat else completion_texts(count, has_tools)
        field = "delta" if is_chat else "text"
        for number, one in enumerate(deltas):
            if number >= _FIRST_DELTAS:
                if seconds := pause():
                    await asyncio.sleep(seconds)
                await self._is_started.wait()
                if reader.at_eof() or writer.is_closing():
                    return
            choice = {"index": 0, field: one, "finish_reason": None}
            writer.write(_event({**base, "object": kind, "choices": [choice]}))
        reason = "tool_calls" if has_tools and is_chat else "stop"
        last: dict[str, Any] = {"index": 0, field: {} if is_chat else "", "finish_reason": reason}
        writer.write(_event({**base, "object": kind, "choices": [last]}))
        writer.write(_event({**base, "object": kind, "choices": [], "usage": usage}))
        writer.write(_chunk(b"data: [DONE]\n\n") + _END)

    def _whole(self, writer: asyncio.StreamWriter, value: Any) -> None:
        data = json.dumps(value).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data)
        writer.write(head + data)


def _has_tools(request: Any) -> bool:
    """Whether to call a tool: one is offered, and no result has come."""
    messages: list[Any] = request.get("messages") or [{}]
    if messages[-1].get("role") == "tool" or "<tool_response>" in str(request.get("prompt", "")):
        return False
    return bool(request.get("tools")) or _TOOL in str(request.get("prompt", ""))


async def _main(port: int) -> None:
    server = await asyncio.start_server(Upstream(), "127.0.0.1", port, backlog=4096)
    print("up", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
