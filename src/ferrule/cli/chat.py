"""`ferrule chat`: a chat with a model in the terminal. Calls are shown as they stream, with their receipts.

A tool with side effects runs only after you approve it.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from contextlib import aclosing

from ferrule.cli import terminal
from ferrule.cli.command import Command
from ferrule.cli.function_option import AnyTool, read_functions
from ferrule.cli.grammars import parse_choice
from ferrule.core.call import ToolCall
from ferrule.core.request import ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.core.visible_text import visible
from ferrule.engines.registry import load_engine
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import ConfirmationRequired, LoopEnded, ToolFinished, ToolProgressed, ToolStarted
from ferrule.run.journal import Decision


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("-e", "--engine", required=True, help="such as llama:MODEL.gguf, vllm:URL or openai:MODEL")
    parser.add_argument(
        "-t",
        "--tools",
        type=read_functions,
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="Python functions as tools: a function, a list of them, or a whole module; may be given several times",
    )
    parser.add_argument(
        "-c", "--choice", default=ToolChoice.auto(), type=parse_choice, help="auto (default), none, required"
    )
    parser.add_argument(
        "--policy",
        type=ChoicePolicy,
        choices=list(ChoicePolicy),
        default=ChoicePolicy.AUTO,
        help="required_first_hop makes the model call a tool before its first answer, if the choice is auto",
    )
    parser.add_argument("-s", "--system", default="", help="the system message")
    parser.add_argument("-m", "--message", help="send one message and exit")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--temperature", type=float)


def _run(arguments: Namespace) -> None:
    tools: list[AnyTool] = [tool for group in arguments.tools for tool in group]
    request = ToolCallRequest(
        messages=(),
        tool_choice=arguments.choice,
        tool_choice_policy=arguments.policy,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
    )
    engine = load_engine(arguments.engine)
    talk = ToolConversation(engine, tools, system=arguments.system, request=request, decide=_decide)
    asyncio.run(_conversation(talk, arguments.message))


async def _conversation(talk: ToolConversation, message: str | None) -> None:
    async with talk.engine:
        while (text := message or await asyncio.to_thread(_read_line)) is not None:
            await _run_turn(talk, text)
            if message:
                return


async def _run_turn(talk: ToolConversation, text: str) -> None:
    live = terminal.LiveReply()
    async with aclosing(talk.stream(text)) as events:
        async for event in events:
            match event:
                case ToolFinished(result):
                    live.end()
                    terminal.show_result(result.name, result.text)
                case LoopEnded(_, reason):
                    live.end()
                    terminal.show_note(reason)
                case ToolStarted() | ToolProgressed() | ConfirmationRequired():
                    pass
                case _:
                    live.show(event)


async def _decide(call: ToolCall) -> Decision:
    return Decision(await asyncio.to_thread(_is_allowed, call), "the user refused it")


def _read_line() -> str | None:
    """Read the user's next line; None at the end of the input."""
    if sys.stdin.isatty():
        terminal.prompt("you")
    line = sys.stdin.readline()
    return line.strip() if line else None


def _is_allowed(call: ToolCall) -> bool:
    terminal.prompt(f"run {visible(call.name)}({visible(call.function.arguments)})? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


COMMAND = Command(
    name="chat",
    about="Chat with a model that has tools.",
    more="Text, calls and their receipts appear as they stream. A tool with side effects runs only\n"
    "after you approve it. Press Ctrl-D to exit.",
    examples="  ferrule chat --engine llama:SmolLM2-135M-Instruct.Q4_1.gguf --tools tools.py\n"
    '  ferrule chat -e vllm:http://127.0.0.1:8000 -t my_package.tools:TOOLS -m "How is Paris?"',
    add_options=_add_options,
    run=_run,
)
