"""Streaming: the arguments of a call as they form, then what the tool gave, then the answer word by word.

In a terminal the pieces appear as the model writes them; elsewhere a bar stands between them.
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
from ferrule.run.events import LoopEvent, ToolFinished
from ferrule.sources.functions import Functions


@tool
def get_weather(city: str, days: int) -> str:
    """The weather of a city for some days."""
    return f"{city}: sunny, {days} days in a row"


def show(event: LoopEvent, console: Console) -> None:
    """One event. What a model wrote is never read as rich's markup: that is off for the whole console."""
    between = "" if console.is_terminal else "|"
    match event:
        case ReasoningDelta(text):
            console.print(text, end=between, style="dim")
        case TextDelta(text):
            console.print(text, end=between)
        case CallStart(_, _, name):
            # Known before the first argument is: a program can prepare for the tool from here on.
            console.print(f"{name} ", end="", style="bold cyan")
        case ArgumentsDelta(_, json):
            # All pieces of a call joined are its arguments, and at any time a beginning of them: none is taken back.
            console.print(json, end=between)
        case CallEnd(_, complete, receipt):
            # Only now may it run, and only if it is complete: a model can be cut off in the middle.
            console.print(f"\n  {receipt}" if complete else "\n  cut off, and not run", style="dim")
        case ToolFinished(result):
            console.print(f"{result.name} gave: {result.text}", style="green")
        case Finish(reason) if reason is not FinishReason.TOOL_CALLS:
            console.print(f"\n  (ended: {reason})", style="dim")
        case _:
            pass


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--question", default="How will the weather be in Paris for 3 days?")
    given = parser.parse_args()
    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
    request = ToolCallRequest(
        messages=(),
        tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
        parallel_tool_calls=False,
        max_tokens=60,
        temperature=0.0,
    )
    async with engine_of(given) as engine:
        talk = ToolConversation(engine, ToolExecutor(Functions([get_weather]), max_iterations=2), request=request)
        console.print(f"you: {given.question}")
        # Closing the stream, here at the end of the block, stops whatever generates or runs.
        async with aclosing(talk.stream(given.question)) as events:
            async for event in events:
                show(event, console)


if __name__ == "__main__":
    asyncio.run(main())
