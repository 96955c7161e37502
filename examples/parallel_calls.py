"""Several calls in one turn: they run concurrently, and the model gets their results together, in order."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

from engine_option import engine_of, options

from ferrule import (
    ChatMessage,
    ChoicePolicy,
    Role,
    ToolCall,
    ToolCallRequest,
    ToolConversation,
    ToolExecutor,
    ToolResult,
    tool,
)
from ferrule.events import ToolFinished, ToolStarted
from ferrule.sources import Functions

SECONDS = 0.5


@tool
async def get_weather(city: str) -> str:
    """The weather of a city."""
    await asyncio.sleep(SECONDS)  # like a request to a remote API
    return f"sunny in {city}"


# An example turn. Without it SmolLM2 makes only one call; try another model without it.
SHOWN = (
    ChatMessage.user("How is the weather in Oslo and in Lima?"),
    ChatMessage.assistant(
        tool_calls=[
            ToolCall.of("get_weather", {"city": "Oslo"}, id="shown1"),
            ToolCall.of("get_weather", {"city": "Lima"}, id="shown2"),
        ]
    ),
    ChatMessage(
        Role.TOOL,
        (ToolResult("shown1", "get_weather", "snow in Oslo"), ToolResult("shown2", "get_weather", "fog in Lima")),
    ),
    ChatMessage.assistant("Oslo has snow and Lima has fog."),
)


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--question", default="How is the weather in Paris and in Rome?")
    args = parser.parse_args()
    request = ToolCallRequest(
        messages=(),
        tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
        parallel_tool_calls=True,  # the default; False limits the model to one call
        max_tokens=300,  # enough for several calls: a call that cannot be finished is not started
        temperature=0.0,
    )
    # `max_concurrent` calls run at once; the others wait.
    tools = ToolExecutor(Functions([get_weather]), max_iterations=2, max_concurrent=4)
    async with engine_of(args) as engine:
        talk = ToolConversation(engine, tools, request=request)
        talk.messages += SHOWN
        print(f"you: {args.question}")
        moments: list[float] = []
        async with aclosing(talk.stream(args.question)) as events:
            async for event in events:
                match event:
                    case ToolStarted(call):
                        print(f"started: {call.name} {call.function.arguments}")
                        moments.append(time.monotonic())
                    case ToolFinished(result):
                        print(f"finished: {result.text}")
                        moments.append(time.monotonic())
                    case _:
                        pass
        calls = len(moments) // 2
        seconds = moments[-1] - moments[0]
        print(f"{calls} calls of {SECONDS} s each took {seconds:.1f} s together")
        print(f"model: {talk.last.text.strip()}")


if __name__ == "__main__":
    asyncio.run(main())
