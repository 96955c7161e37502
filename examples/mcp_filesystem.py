"""The tools of an MCP server: the reference filesystem server on a folder, and a model that reads a file in it.

By default npx downloads and starts the server, so node must be installed:
  npx -y @modelcontextprotocol/server-filesystem FOLDER
`--server` sets another command; the folder is appended to it.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
from pathlib import Path

from engine_option import engine_of, options

from ferrule import ChatMessage, ChoicePolicy, Role, ToolCall, ToolCallRequest, ToolExecutor
from ferrule.sources import mcp

NPX = "npx -y @modelcontextprotocol/server-filesystem"
FILES = {"todo.txt": "call the plumber\n", "shopping.txt": "milk, bread, apples\n"}
SECONDS_TO_FETCH = 120  # npx downloads it the first time
READ = "files_read_text_file"  # the server's name, and its tool's


def folder_with_files() -> Path:
    folder = Path(tempfile.mkdtemp())
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


async def read_by_hand(executor: ToolExecutor, name: str) -> tuple[ChatMessage, ...]:
    """A turn in which this program makes the call. It runs like a model's call."""
    call = ToolCall.of(READ, {"path": name}, id="byhand001")
    result = await executor.dispatch(call)
    print(f"this program reads {name}: {result.text}")
    history = (ChatMessage.user(f"Read the file {name}."), ChatMessage.assistant(tool_calls=[call]))
    return (*history, ChatMessage(Role.TOOL, (result,)), ChatMessage.assistant("I have read it."))


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--server", default=NPX, help=f"the command that starts it (default: {NPX})")
    args = parser.parse_args()
    folder = folder_with_files()
    command, *rest = shlex.split(args.server)
    # Calls to an MCP server need approval, except tools of a trusted server that declare themselves read-only.
    server = {
        "command": command,
        "args": [*rest, str(folder)],
        "cwd": str(folder),
        "trusted": True,
        "connectTimeout": 1000 * SECONDS_TO_FETCH,
    }
    async with mcp({"files": server}, settle_seconds=SECONDS_TO_FETCH) as source:
        tools = await source.tools()
        if not tools:
            sys.exit("\n".join(source.notices))
        print(f"no approval needed: {', '.join(tool.name for tool in tools if not tool.side_effects)}")
        print(f"approval needed: {', '.join(tool.name for tool in tools if tool.side_effects)}")

        # One of fourteen tools, and an example turn: without that turn SmolLM2 makes up a path.
        executor = ToolExecutor(source, tools=[READ], max_iterations=1)
        await executor.refresh()
        history = await read_by_hand(executor, "todo.txt")
        question = "Read the file shopping.txt."
        request = ToolCallRequest(
            messages=(*history, ChatMessage.user(question)),
            tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
            parallel_tool_calls=False,
            max_tokens=60,
            temperature=0.0,
        )
        print(f"you: {question}")
        async with engine_of(args) as engine:
            loop = await executor.run_chat_with_tools(engine, request)
        for message in loop.new_messages:
            for call in message.tool_calls:
                print(f"calls: {call.name} {call.function.arguments}")
            for result in message.results:
                print(f"{result.name} {'failed' if result.is_error else 'returned'}: {result.text}")
        print(f"model: {loop.reply.text.strip()}")


if __name__ == "__main__":
    asyncio.run(main())
