"""A tool with side effects, which needs approval. The program asks you in the terminal before the tool runs.

Here the approval is a question in this process. With a ledger it is a database row that an authorized person decides on
later, with `ferrule approvals` or the gateway, and that survives a crash: docs/explanation/loop.md.
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
from ferrule.events import ConfirmationRequired, ToolFinished, ToolStarted
from ferrule.sources import Functions


def list_in(file: Path) -> FunctionTool[[str], str]:
    @tool(side_effects=True)  # without this it would run without approval
    def add_item(item: str) -> str:
        """Adds an item to the shopping list."""
        with file.open("a", encoding="utf-8") as page:
            page.write(f"{item}\n")
        return f"The list is now: {', '.join(file.read_text(encoding='utf-8').split())}."

    return add_item


def ask(call: ToolCall) -> Decision:
    """Ask the user: yes, no, or other arguments, which are validated like the model's."""
    # Show the arguments that will be used, with all but ASCII escaped, so that nothing can hide in them.
    visible = json.dumps(call.arguments, ensure_ascii=True)
    try:
        answer = input(f"run {call.name} {visible}? [y, n, or other arguments as JSON] ")
    except EOFError:
        answer = ""
    if answer.strip().startswith("{"):
        return Decision(True, arguments=answer)
    return Decision(answer.strip().lower() in ("y", "yes"), "the user refused it")


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--yes", action="store_true", help="approve without asking")
    parser.add_argument("--file", type=Path, help="the file of the list (default: a temporary file)")
    args = parser.parse_args()
    file: Path = args.file or Path(tempfile.mkdtemp()) / "shopping.txt"
    request = ToolCallRequest(
        messages=(),
        tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
        parallel_tool_calls=False,
        max_tokens=40,
        temperature=0.0,
    )
    tools = ToolExecutor(Functions([list_in(file)]), max_iterations=1)
    async with engine_of(args) as engine:
        talk = ToolConversation(engine, tools, request=request, decide=(lambda call: True) if args.yes else ask)
        question = "Add milk to the shopping list."
        print(f"you: {question}")
        async with aclosing(talk.stream(question)) as events:
            async for event in events:
                match event:
                    case ConfirmationRequired(call):
                        print(f"waiting for approval: {call.name} {call.function.arguments}")
                    case ToolStarted(call):
                        print(f"running: {call.name} {call.function.arguments}")
                    case ToolFinished(result):
                        print(f"{result.name} {'failed' if result.is_error else 'returned'}: {result.text}")
                    case _:
                        pass
        # The model sees a denial as the call's result.
        results = [result.text for message in talk.messages for result in message.results]
        print(f"the model sees: {'; '.join(results)}")
    print(f"{file}: {file.read_text(encoding='utf-8').strip() if file.exists() else 'nothing was written'}")


if __name__ == "__main__":
    asyncio.run(main())
