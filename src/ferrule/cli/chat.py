"""`ferrule chat`: a chat with a model in the terminal. Calls are shown as they stream, with their receipts.

A tool with side effects runs only after you approve it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from ferrule.cli import terminal
from ferrule.cli.bus_option import URL_VARIABLE
from ferrule.cli.chat_approval import MEANINGS, ApprovalMode, ChatApproval
from ferrule.cli.chat_commands import COMMANDS, ChatCommands
from ferrule.cli.chat_gateway import GATEWAY_KEY, first_model, load_gateway_model
from ferrule.cli.chat_input import INSTALL, ChatInput, Interruption, LineInput, open_input
from ferrule.cli.chat_session import ChatSession
from ferrule.cli.command import Command
from ferrule.cli.function_option import AnyTool, read_functions
from ferrule.cli.grammars import parse_choice
from ferrule.cli.serve_sources import sources_of
from ferrule.cli.startup_note import print_startup_note
from ferrule.core.json_text import loads
from ferrule.core.request import ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.engines.cache_folder import cache_folder
from ferrule.engines.engine import Engine
from ferrule.engines.registry import load_engine
from ferrule.errors import DefinitionError
from ferrule.server.config.config import OpenApiConfig, SourcesConfig
from ferrule.server.secret_mask import mask_secrets
from ferrule.sources.bus.connection import DEFAULT_URL
from ferrule.sources.combined_sources import CombinedSources


def _add_options(parser: ArgumentParser) -> None:
    models = parser.add_mutually_exclusive_group(required=True)
    models.add_argument("-e", "--engine", help="such as hf:OWNER/NAME, llama:MODEL.gguf, vllm:URL or openai:MODEL")
    models.add_argument(
        "--url",
        help=f"a running gateway, such as http://127.0.0.1:8000, with its tools; its key is read from ${GATEWAY_KEY}",
    )
    parser.add_argument("--model", default="", metavar="NAME", help="with --url, the model (default: the first)")
    parser.add_argument(
        "-t",
        "--tools",
        type=read_functions,
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="Python functions as tools: a function, a list of them, or a whole module; may be given several times",
    )
    parser.add_argument("--mcp-config", default="", metavar="FILE", help="the MCP servers of an mcp.json as tools")
    parser.add_argument(
        "--openapi",
        action="append",
        default=[],
        metavar="FILE",
        help="the operations of an OpenAPI document as tools; may be given several times",
    )
    parser.add_argument(
        "--nats",
        nargs="?",
        default="",
        const=os.environ.get(URL_VARIABLE, DEFAULT_URL),
        metavar="URL",
        help="the workers on a NATS bus as tools",
    )
    parser.add_argument(
        "--approve",
        type=ApprovalMode,
        choices=list(ApprovalMode),
        default=ApprovalMode.ASK,
        help="; ".join(f"{mode}: {meaning}" for mode, meaning in MEANINGS.items()) + " (default: ask)",
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
    parser.add_argument("--load", metavar="FILE", help="continue a conversation that /save wrote")
    parser.add_argument("--no-history", action="store_true", help="do not keep your messages for the next session")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--temperature", type=float)


def _run(arguments: Namespace) -> None:
    asyncio.run(_chat(arguments))


async def _chat(arguments: Namespace) -> None:
    is_interactive = arguments.message is None and sys.stdin.isatty() and sys.stdout.isatty()
    history = None if arguments.no_history else cache_folder("chat") / "history"
    input = open_input(tuple(COMMANDS), history) if is_interactive else LineInput()
    saved = _read_saved(arguments.load) if arguments.load else None
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(CombinedSources(_sources(arguments)))
        load = _load if arguments.engine else partial(load_gateway_model, arguments.url)
        name = arguments.engine or arguments.model or await first_model(arguments.url)
        engine = await load(name)

        async def ask(question: str) -> str | None:
            return await session.ask(input, question)

        approval = ChatApproval(arguments.approve, ask)
        request = _request(arguments)
        session = ChatSession(engine, source, request, approval, system=arguments.system, is_interactive=is_interactive)

        async def close() -> None:
            # That of the end: /model may have replaced it.
            await session.engine.close()

        stack.push_async_callback(close)
        if saved is not None:
            session.load(saved)
        if is_interactive:
            commands = ChatCommands(session, name, load, _facts(arguments))
            await _talk(session, commands, input)
        else:
            print_startup_note(engine)
            await _answer_lines(session, input, arguments.message)


async def _answer_lines(session: ChatSession, input: ChatInput, message: str | None) -> None:
    """Answer one message, or each line of the input. Nothing in a line is a command: it may be anyone's text."""
    while (text := message or await input.read_message()) is not None:
        await session.answer(text)
        if message:
            return


async def _talk(session: ChatSession, commands: ChatCommands, input: ChatInput) -> None:
    await commands.show_banner(f"Ferrule {version('ferrule')}", session.engine.startup_note)
    terminal.show_hint("/help lists commands. Ctrl-C stops an answer, twice leaves.")
    if not input.has_editor:
        terminal.show_hint(f"For history and several lines: {INSTALL}")
    was_interrupted = False
    with session.signals():
        while not commands.is_over:
            try:
                text = await session.until_interrupt(input.read_message())
            except Interruption:
                if was_interrupted:
                    return
                was_interrupted = True
                terminal.show_hint("Ctrl-C again leaves.")
                continue
            if text is None:
                return
            if text.startswith("/") and not text.startswith("//"):
                was_interrupted = await session.stops(commands.run(text))
            elif text:
                was_interrupted = await session.answer(text.removeprefix("/") if text.startswith("//") else text)


async def _load(name: str) -> Engine:
    # A download shows its own progress.
    if name.startswith("hf:"):
        return load_engine(name)
    with terminal.status(f"loading {mask_secrets(name)}"):
        return load_engine(name)


def _request(arguments: Namespace) -> ToolCallRequest:
    return ToolCallRequest(
        messages=(),
        tool_choice=arguments.choice,
        tool_choice_policy=arguments.policy,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
    )


def _sources(arguments: Namespace) -> list[Any]:
    functions: list[AnyTool] = [tool for group in arguments.tools for tool in group]
    settings = SourcesConfig(mcp_config=arguments.mcp_config, nats=arguments.nats)
    documents = [OpenApiConfig(name=Path(path).stem, document=path) for path in arguments.openapi]
    return list(sources_of(settings, documents, functions))


_POLICIES = {
    ChoicePolicy.AUTO: "the model decides whether to call a tool",
    ChoicePolicy.REQUIRED_FIRST_HOP: "the model calls a tool before its first answer",
}


def _facts(arguments: Namespace) -> list[tuple[str, str]]:
    choice: ToolChoice = arguments.choice
    gateway = [("gateway", f"{arguments.url}: it runs its own tools, and its approvals are given there")]
    facts = gateway if arguments.url else []
    if choice == ToolChoice.auto():
        return [*facts, ("policy", _POLICIES[arguments.policy])]
    names = f" one of {', '.join(choice.names)}" if choice.names else ""
    return [*facts, ("policy", f"tool_choice is {choice.mode}{names}")]


def _read_saved(path: str) -> dict[str, Any]:
    try:
        data = loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise DefinitionError(f"cannot read {path}: {problem.strerror}") from problem
    except ValueError as problem:
        raise DefinitionError(f"{path} is not JSON: {problem}", hint="Name a file that /save wrote.") from problem
    if not isinstance(data, dict) or "messages" not in data:
        raise DefinitionError(f"{path} is not a conversation", hint="Name a file that /save wrote.")
    return cast("dict[str, Any]", data)


COMMAND = Command(
    name="chat",
    about="Chat with a model that has tools.",
    more="Text, calls and their receipts appear as they stream. A tool with side effects runs only\n"
    "after you approve it. On a terminal, /help lists commands: tools, approval, raw output, models.\n"
    "Ctrl-C stops an answer, twice leaves; Ctrl-D leaves. Without a terminal each line is a message.",
    examples="  ferrule chat --engine llama:SmolLM2-135M-Instruct.Q4_1.gguf --tools tools.py\n"
    "  ferrule chat -e openai:gpt-5-mini --mcp-config mcp.json --approve none\n"
    "  ferrule chat --url http://127.0.0.1:8000\n"
    '  ferrule chat -e vllm:http://127.0.0.1:8000 -t my_package.tools:TOOLS -m "How is Paris?"',
    add_options=_add_options,
    run=_run,
)
