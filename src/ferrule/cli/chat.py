"""`ferrule chat`: talk to a model in the terminal and watch its calls form, with their receipts.

A tool that changes the world runs only after a yes.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from contextlib import aclosing

from ferrule.cli import terminal
from ferrule.cli.command import Command
from ferrule.cli.function_option import AnyTool, read_functions
from ferrule.cli.grammars import chosen
from ferrule.core.call import ToolCall
from ferrule.core.choice import ChoicePolicy, ToolChoice
from ferrule.core.request import ToolCallRequest
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
    parser.add_argument("-c", "--choice", default=ToolChoice.auto(), type=chosen, help="auto (default), none, required")
    parser.add_argument(
        "--policy",
        type=ChoicePolicy,
        choices=list(ChoicePolicy),
        default=ChoicePolicy.AUTO,
        help="what becomes of auto: required_first_hop asks for a call before the first answer",
    )
    parser.add_argument("-s", "--system", default="", help="what the model is told first")
    parser.add_argument("-m", "--message", help="one message instead of a conversation")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--temperature", type=float)


def _run(arguments: Namespace) -> None:
    tools: list[AnyTool] = [one for group in arguments.tools for one in group]
    request = ToolCallRequest(
        messages=(),
        tool_choice=arguments.choice,
        tool_choice_policy=arguments.policy,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
    )
    engine = load_engine(arguments.engine)
    talk = ToolConversation(engine, tools, system=arguments.system, request=request, decide=_decided)
    asyncio.run(_conversation(talk, arguments.message))


async def _conversation(talk: ToolConversation, message: str | None) -> None:
    async with talk.engine:
        while (said := message or await asyncio.to_thread(_said)) is not None:
            await _shown(talk, said)
            if message:
                return


async def _shown(talk: ToolConversation, said: str) -> None:
    live = terminal.LiveReply()
    async with aclosing(talk.stream(said)) as events:
        async for event in events:
            match event:
                case ToolFinished(result):
                    live.end()
                    terminal.show_result(result.name, result.text)
                case LoopEnded(_, words):
                    live.end()
                    terminal.show_note(words)
                case ToolStarted() | ToolProgressed() | ConfirmationRequired():
                    pass
                case _:
                    live.show(event)


async def _decided(call: ToolCall) -> Decision:
    return Decision(await asyncio.to_thread(_is_allowed, call), "the user said no")


def _said() -> str | None:
    """The next line of the user; None when there are no more."""
    if sys.stdin.isatty():
        terminal.prompt("you")
    line = sys.stdin.readline()
    return line.strip() if line else None


def _is_allowed(call: ToolCall) -> bool:
    terminal.prompt(f"run {call.name}({call.function.arguments})? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


COMMAND = Command(
    name="chat",
    about="Talk to a model with tools, and watch its calls form.",
    more="Text, calls and their receipts appear as they form. A tool that changes the world runs only\n"
    "after a yes. End with Ctrl-D.",
    examples="  ferrule chat --engine llama:SmolLM2-135M-Instruct.Q4_1.gguf --tools tools.py\n"
    '  ferrule chat -e vllm:http://127.0.0.1:8000 -t my_package.tools:TOOLS -m "How is Paris?"',
    add_options=_add_options,
    run=_run,
)
