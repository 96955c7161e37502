"""A model with the tools of the bus: `python -m hearth.ask --engine llama:MODEL.gguf "When are the apples picked?"`."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable

from ferrule import CallContext, ChatMessage, Decision, Engine, ToolCall, ToolCallRequest, ToolExecutor, load_engine
from ferrule.sources import Bus

Decide = Callable[[ToolCall], Awaitable[Decision | None]]


async def run_question(
    engine: Engine, bus: Bus, question: str, decide: Decide, context: CallContext | None = None
) -> tuple[ChatMessage, ...]:
    """Run the tool loop for one question, with all tools on the bus. Return the new messages."""
    request = ToolCallRequest(messages=(ChatMessage.user(question),), max_tokens=512)
    loop = await ToolExecutor(bus).run_chat_with_tools(engine, request, decide=decide, context=context)
    return tuple(loop.new_messages)


async def ask_the_user(call: ToolCall) -> Decision | None:
    answer = await asyncio.to_thread(input, f"run {call.name}({call.function.arguments})? [y/N] ")
    return Decision(answer.strip().lower() in ("y", "yes"), "the user refused it")


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question")
    parser.add_argument("--engine", required=True, help="as `ferrule chat` takes it")
    parser.add_argument("--nats", default=os.environ.get("FERRULE_NATS", "nats://127.0.0.1:4222"))
    arguments = parser.parse_args()
    async with load_engine(arguments.engine) as engine, Bus(arguments.nats) as bus:
        messages = await run_question(engine, bus, arguments.question, ask_the_user)
    for message in messages:
        for result in message.results:
            print(f"[{result.name}: {result.text:.200}]")
    print(messages[-1].content)


if __name__ == "__main__":
    asyncio.run(_main())
