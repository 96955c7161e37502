"""`ferrule chat`: talk to a model in the terminal and watch its calls form, with their receipts.

A tool that changes the world runs only after a yes. The loop here is the plainest that works; `ferrule.run` has the one
that survives a crash.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from ferrule.cli import terminal
from ferrule.cli.command import Command
from ferrule.cli.functions import AnyTool, read_functions
from ferrule.cli.grammars import chosen
from ferrule.core.call import ToolCall
from ferrule.core.choice import ChoicePolicy, ToolChoice
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.engines.pick import pick

MOST_ROUNDS = 6


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
    tools: dict[str, AnyTool] = {one.definition.name: one for group in arguments.tools for one in group}
    engine = pick(arguments.engine)
    asyncio.run(_conversation(engine, tools, arguments))


async def _conversation(engine: Engine, tools: dict[str, AnyTool], arguments: Namespace) -> None:
    messages: list[ChatMessage] = [ChatMessage.system(arguments.system)] if arguments.system else []
    async with engine:
        while (said := arguments.message or await asyncio.to_thread(_said)) is not None:
            messages.append(ChatMessage.user(said))
            request = ToolCallRequest(
                messages=(),
                tools=tuple(tool.definition for tool in tools.values()),
                tool_choice=arguments.choice,
                tool_choice_policy=arguments.policy,
                max_tokens=arguments.max_tokens,
                temperature=arguments.temperature,
            )
            messages += await turn(engine, request, messages, tools, _is_allowed)
            if arguments.message:
                return


async def turn(
    engine: Engine,
    request: ToolCallRequest,
    messages: Sequence[ChatMessage],
    tools: dict[str, AnyTool],
    is_allowed: Callable[[ToolCall], bool],
) -> list[ChatMessage]:
    """The messages that one turn adds: calls and results until the model answers, or the rounds are used up."""
    added: list[ChatMessage] = []
    for number in range(MOST_ROUNDS + 1):
        is_last = number == MOST_ROUNDS
        choice = ToolChoice.none() if is_last else request.tool_choice
        asked = replace(request, messages=(*messages, *added), tool_choice=choice)
        reply = await _shown(engine, asked)
        added.append(reply.as_message())
        if not reply.calls:
            break
        for call in reply.calls:
            added.append(await _result(call, tools, is_allowed))
    return added


async def _shown(engine: Engine, request: ToolCallRequest) -> Reply:
    folding = Folding()
    live = terminal.LiveReply()
    async with aclosing(engine.stream(request)) as events:
        async for event in events:
            folding.add(event)
            live.show(event)
    live.end()
    return folding.reply()


async def _result(call: ToolCall, tools: dict[str, AnyTool], is_allowed: Callable[[ToolCall], bool]) -> ChatMessage:
    tool = tools[call.name]
    if tool.definition.side_effects and not await asyncio.to_thread(is_allowed, call):
        return ChatMessage.tool(call.id, "the user said no", call.name, is_error=True)
    # A tool may raise anything, and the model is told what.
    (given,) = await asyncio.gather(asyncio.to_thread(lambda: tool(**call.arguments)), return_exceptions=True)
    is_error = isinstance(given, Exception)
    content = f"{type(given).__name__}: {given}" if is_error else given
    terminal.show_result(call.name, str(content))
    return ChatMessage.tool(call.id, content, call.name, is_error=is_error)


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
