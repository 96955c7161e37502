"""A caller of the model on the bus, in its own process: prints each frame. Run as a program by test_llm_chat.py."""

from __future__ import annotations

import asyncio
import json
import sys

from ferrule.sources.bus.bus import Bus


async def main(url: str) -> None:
    async with Bus(url) as bus:
        body = {"messages": [{"role": "user", "content": "Count."}]}
        async for frame in bus.stream("llm.chat", (2, 0), body):
            print(json.dumps(frame), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
