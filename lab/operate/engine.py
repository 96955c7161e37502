"""The engine of the day: OpenAI's chat API with scripted answers, as a process of its own on loopback.

The user's message says what to do. `say 7` is answered at once, `tell 7` in words that are 100 ms apart. `pay 7`,
`price 7` and `add 7` call a tool if it is offered, and the tool's result becomes the answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import uvloop

WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight")
_WORD_SECONDS: Final = 0.1
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END: Final = b"0\r\n\r\n"
_MODELS: Final = {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 32768}]}
_CALLS: Final[Mapping[str, tuple[str, Callable[[int], dict[str, int]]]]] = {
    "pay": ("pay", lambda number: {"number": number}),
    "price": ("get_price", lambda number: {"item": number}),
    "add": ("sums_add", lambda number: {"a": number, "b": 1}),
}
"""The tool and its arguments, by the first word of the message."""


def text_answer(number: int) -> str:
    """The answer to `say` and `tell`."""
    return " ".join((str(number), *WORDS))


def deltas_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The deltas of the answer to a request: a call, the result of one, or words."""
    messages: list[Mapping[str, Any]] = body["messages"]
    verb, number = _text(next(one for one in reversed(messages) if one["role"] == "user")).split()
    if verb not in _CALLS:
        return [{"content": f"{number}"}, *({"content": f" {word}"} for word in WORDS)]
    results = [one for one in messages if one["role"] == "tool"]
    if results:
        return [{"content": _text(results[-1])}]
    name, arguments = _CALLS[verb]
    if name not in {one["function"]["name"] for one in body.get("tools") or ()}:
        return [{"content": f"{name} is not offered"}]
    function = {"name": name, "arguments": json.dumps(arguments(int(number)))}
    return [{"tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]}]


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            await _answer(reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
    body: dict[str, Any] = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
    if not head[0].startswith("POST "):
        _write_whole(writer, _MODELS)
    elif body.get("stream"):
        await _write_stream(writer, body)
    else:
        _write_whole(writer, _completion(body))
    await writer.drain()


async def _write_stream(writer: asyncio.StreamWriter, body: Mapping[str, Any]) -> None:
    deltas = deltas_of(body)
    is_slow = _text(body["messages"][-1]).startswith("tell ")
    writer.write(_HEAD + _event({"role": "assistant", "content": ""}))
    for delta in deltas:
        if is_slow:
            await asyncio.sleep(_WORD_SECONDS)
            if writer.is_closing():
                raise ConnectionResetError
        writer.write(_event(delta))
    writer.write(_event({}, _reason(deltas)) + _chunk(b"data: [DONE]\n\n") + _END)


def _completion(body: Mapping[str, Any]) -> dict[str, Any]:
    deltas = deltas_of(body)
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(delta.get("content", "") for delta in deltas)}
    choice = {"index": 0, "message": message | ({"tool_calls": calls} if calls else {})}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m"} | {
        "choices": [choice | {"finish_reason": _reason(deltas)}]
    }


def _reason(deltas: list[dict[str, Any]]) -> str:
    return "tool_calls" if "tool_calls" in deltas[0] else "stop"


def _event(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
    return _chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _write_whole(writer: asyncio.StreamWriter, value: Any) -> None:
    data = json.dumps(value).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data)
    writer.write(head + data)


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def _main(port: int) -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
