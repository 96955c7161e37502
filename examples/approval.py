"""A tool that changes the world, and so waits for leave. You are asked in the terminal before it runs.

Here leave is a question in this process. With a ledger it is a row that anybody with the right decides on later, by
`ferrule approvals` or the gateway, and that survives a crash: docs/explanation/loop.md.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import aclosing
from pathlib import Path

from engine_option import engine_of, options

from ferrule import (
    ChoicePolicy,
    Decision,
    FunctionTool,
    ToolCall,
    ToolCallRequest,
    ToolConversation,
    ToolExecutor,
    tool,
)
from ferrule.run.events import ConfirmationRequired, ToolFinished, ToolStarted
from ferrule.sources.functions import Functions


def list_in(file: Path) -> FunctionTool[[str], str]:
    @tool(side_effects=True)  # without this it would run unasked
    def add_item(item: str) -> str:
        """Adds an item to the shopping list."""
        with file.open("a", encoding="utf-8") as page:
            page.write(f"{item}\n")
        return f"The list is now: {', '.join(file.read_text(encoding='utf-8').split())}."

    return add_item


async def ask(call: ToolCall) -> Decision:
    """What you say to a call: yes, no, or other arguments, which are checked as the model's were."""
    # Drawn from the arguments that will be used, with everything but ASCII spelled out: nothing can hide in it.
    shown = json.dumps(call.arguments, ensure_ascii=True)
    try:
        said = await asyncio.to_thread(input, f"run {call.name} {shown}? [y, n, or other arguments as JSON] ")
    except EOFError:
        said = ""
    if said.strip().startswith("{"):
        return Decision(True, arguments=said)
    return Decision(said.strip().lower() in ("y", "yes"), "the user said no")


async def agree(call: ToolCall) -> Decision:
    return Decision(True)


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--yes", action="store_true", help="give leave without asking")
    parser.add_argument("--file", type=Path, help="where the list is kept (default: a file in a folder of its own)")
    given = parser.parse_args()
    file: Path = given.file or Path(tempfile.mkdtemp()) / "shopping.txt"
    request = ToolCallRequest(
        messages=(),
        tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
        parallel_tool_calls=False,
        max_tokens=40,
        temperature=0.0,
    )
    tools = ToolExecutor(Functions([list_in(file)]), max_iterations=1)
    async with engine_of(given) as engine:
        talk = ToolConversation(engine, tools, request=request, decide=agree if given.yes else ask)
        question = "Add milk to the shopping list."
        print(f"you: {question}")
        async with aclosing(talk.stream(question)) as events:
            async for event in events:
                match event:
                    case ConfirmationRequired(call):
                        print(f"waits for leave: {call.name} {call.function.arguments}")
                    case ToolStarted(call):
                        print(f"runs: {call.name} {call.function.arguments}")
                    case ToolFinished(result):
                        print(f"{result.name} {'failed' if result.is_error else 'gave'}: {result.text}")
                    case _:
                        pass
        # A denial is told to the model as the call's result.
        told = [result.text for message in talk.messages for result in message.results]
        print(f"the model was told: {'; '.join(told)}")
    print(f"{file}: {file.read_text(encoding='utf-8').strip() if file.exists() else 'nothing was written'}")


if __name__ == "__main__":
    asyncio.run(main())
