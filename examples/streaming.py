"""Streaming: the arguments of a call as they arrive, then the tool's result, then the answer word by word.

In a terminal the pieces appear as the model writes them; elsewhere they are separated by a bar.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from engine_option import engine_of, options
from rich.console import Console

from ferrule import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ChoicePolicy,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallRequest,
    ToolConversation,
    ToolExecutor,
    tool,
)
from ferrule.events import LoopEvent, ToolFinished
from ferrule.sources import Functions


@tool
def get_weather(city: str, days: int) -> str:
    """The weather of a city for some days."""
    return f"{city}: sunny, {days} days in a row"


def show(event: LoopEvent, console: Console) -> None:
    """Print one event. The console has rich's markup disabled, so that model output is never interpreted as markup."""
    between = "" if console.is_terminal else "|"
    match event:
        case ReasoningDelta(text):
            console.print(text, end=between, style="dim")
        case TextDelta(text):
            console.print(text, end=between)
        case CallStart(_, _, name):
            # The name is known before the first argument, so a program can prepare the tool here.
            console.print(f"{name} ", end="", style="bold cyan")
        case ArgumentsDelta(_, json):
            # The pieces of a call joined are its arguments. No piece is ever taken back.
            console.print(json, end=between)
        case CallEnd(_, complete, receipt):
            # Run a call only now, and only if it is complete: the output may end in the middle of a call.
            console.print(f"\n  {receipt}" if complete else "\n  cut off, and not run", style="dim")
        case ToolFinished(result):
            console.print(f"{result.name} returned: {result.text}", style="green")
        case Finish(reason) if reason is not FinishReason.TOOL_CALLS:
            console.print(f"\n  (ended: {reason})", style="dim")
        case _:
            pass


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--question", default="How will the weather be in Paris for 3 days?")
    args = parser.parse_args()
    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
    request = ToolCallRequest(
        messages=(),
        tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
        parallel_tool_calls=False,
        max_tokens=60,
        temperature=0.0,
    )
    async with engine_of(args) as engine:
        talk = ToolConversation(engine, ToolExecutor(Functions([get_weather]), max_iterations=2), request=request)
        console.print(f"you: {args.question}")
        # Closing the stream, here at the end of the block, stops the generation and running tools.
        async with aclosing(talk.stream(args.question)) as events:
            async for event in events:
                show(event, console)


if __name__ == "__main__":
    asyncio.run(main())
