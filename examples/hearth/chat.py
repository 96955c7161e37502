"""A chat whose model is on the bus too: `python -m hearth.chat "When are the apples picked?"`.

The model runs in a worker (`ferrule worker --engine llama:MODEL.gguf`), the tools in others. With `--frames` every
frame is printed as a line of JSON; with `--yes` calls with side effects are approved.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from typing import Any

from ferrule import Decision, FerruleError, ToolCall, ToolExecutor
from ferrule.sources import Bus
from hearth.ask import ask_the_user


async def approve(call: ToolCall) -> Decision | None:
    return Decision(True)


def show_text(frame: dict[str, Any]) -> None:
    match frame:
        case {"type": "token", "text": text}:
            print(text, end="", flush=True)
        case {"type": "tool_result", "name": name, "body": body}:
            print(f"[{name}: {json.dumps(body, ensure_ascii=False):.200}]")
        case {"type": "done"}:
            print()
        case _:
            pass


def show_frame(frame: dict[str, Any]) -> None:
    print(json.dumps(frame, ensure_ascii=False), flush=True)


async def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question")
    parser.add_argument("--tool", action="append", help="offer only this tool; may be repeated")
    parser.add_argument("--first", action="store_true", help="require a call before the answer")
    parser.add_argument("--rounds", type=int, default=6, help="how many rounds of calls the answer may take")
    parser.add_argument("--frames", action="store_true")
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--nats", default=os.environ.get("FERRULE_NATS", "nats://127.0.0.1:4222"))
    arguments = parser.parse_args()
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": arguments.question}],
        "max_tokens": 512,
        "temperature": 0,
        "parallel_tool_calls": False,
    }
    if arguments.first:
        body["tool_choice_policy"] = "required_first_hop"
    show = show_frame if arguments.frames else show_text
    async with Bus(arguments.nats) as bus:
        executor = ToolExecutor(bus, arguments.tool, max_iterations=arguments.rounds)
        try:
            await executor.run_chat_with_tools(body, stream_to=show, decide=approve if arguments.yes else ask_the_user)
        except FerruleError as error:
            # What was said stays said, and what was done stays done. Ask again if it is retryable.
            print(f"error: {error.message}", file=sys.stderr)
            show({"type": "error", "code": error.code, "retryable": error.retryable})
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
