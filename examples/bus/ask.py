"""A model whose tools run in other processes: the tools that workers on the bus serve now."""

from __future__ import annotations

import asyncio
import os
import sys

from engine_option import engine_of, options

from ferrule import ChatMessage, ChoicePolicy, FerruleError, ToolCallRequest, ToolExecutor
from ferrule.events import LoopEvent, ToolFinished, ToolProgressed, ToolStarted
from ferrule.sources import Bus

URL = os.environ.get("FERRULE_NATS", "nats://127.0.0.1:4222")


def show(event: LoopEvent) -> None:
    match event:
        case ToolStarted(call):
            print(f"calls: {call.name} {call.function.arguments}")
        case ToolProgressed(_, progress):
            print(f"  {progress.message}: {progress.done:g} of {progress.total or 0:g}")
        case ToolFinished(result):
            print(f"{result.name} {'failed' if result.is_error else 'returned'}: {result.text}")
        case _:
            pass


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--question", default="Make 3 cups of coffee.")
    args = parser.parse_args()
    request = ToolCallRequest(
        messages=(ChatMessage.user(args.question),),
        tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
        parallel_tool_calls=False,
        max_tokens=40,
        temperature=0.0,
    )
    try:
        # A bus is a source like any other: the loop does not know that the tools run elsewhere.
        async with Bus(URL) as bus:
            served = [tool.name for tool in await bus.tools()]
            print(f"served on {URL}: {', '.join(served) or 'nothing'}")
            if not served:
                sys.exit("start a worker: python -m bus.worker")
            async with engine_of(args) as engine:
                print(f"you: {args.question}")
                loop = await ToolExecutor(bus, max_iterations=2).run_chat_with_tools(engine, request, stream_to=show)
    except FerruleError as error:
        sys.exit(f"{error.message}\n{error.hint}")
    print(f"model: {loop.reply.text.strip()}")


if __name__ == "__main__":
    asyncio.run(main())
