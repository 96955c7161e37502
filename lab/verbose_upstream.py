"""A fake upstream with OpenAI's chat API that sends much text in few events, and waits for the reader.

It is for tests of clients that do not read: with many small events the upstream itself would be measured.
"""

import asyncio
import json
import sys
from typing import Any, Final

from aiohttp import web

_WORD: Final = "word "
_LONG: Final = _WORD * 4_000
_MANY: Final = 100
"""With more events than this, each is long; with fewer, the answer is short."""


async def _models(request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})


async def _chat(request: web.Request) -> web.StreamResponse:
    body: Any = await request.json()
    count = int(body.get("max_tokens") or 8)
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    event = _event({"content": _LONG if count > _MANY else _WORD})
    for _ in range(count):
        await answer.write(event)
    await answer.write(_event({}, "stop") + b"data: [DONE]\n\n")
    return answer


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def _main(port: int) -> None:
    app = web.Application()
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/chat/completions", _chat)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
