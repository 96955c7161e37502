"""`ferrule worker`: serves Python functions, or a model, as capabilities on a NATS bus until it is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from ferrule.cli import json_view, streams
from ferrule.cli.bus_option import URL_VARIABLE, add_bus_options, add_key_option, bus_of, key_of
from ferrule.cli.command import Command
from ferrule.cli.function_option import AnyTool, read_functions
from ferrule.cli.startup_note import print_startup_note
from ferrule.cli.terminal import printable
from ferrule.errors import DefinitionError
from ferrule.sources.bus.relay import Relay
from ferrule.sources.bus.worker import CAP, Worker
from ferrule.sources.functions import Functions
from ferrule.sources.source import Source
from ferrule.sources.tool_exceptions import create_guarded_task

_STOPS = (signal.SIGINT, signal.SIGTERM)


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "tools",
        nargs="*",
        type=read_functions,
        metavar="MODULE:NAME",
        help="functions to serve: a function, a list of them, or a whole module",
    )
    parser.add_argument(
        "-e",
        "--engine",
        metavar="ENGINE",
        help="also serve the model of this engine as llm.chat@2.0, such as llama:model.gguf",
    )
    add_bus_options(parser)
    add_key_option(parser)
    parser.add_argument(
        "--server",
        default="tools",
        metavar="NAME",
        help="the server part of capability names for tools that are bound to none (default: tools)",
    )
    parser.add_argument("--cap", type=int, default=CAP, metavar="N", help=f"maximum concurrent calls (default: {CAP})")
    parser.add_argument(
        "--label", action="append", type=_label, default=[], metavar="NAME=TEXT", help="metadata that discovery returns"
    )
    relays = parser.add_mutually_exclusive_group()
    relays.add_argument(
        "--relay", action="store_true", help="also serve llm.tools.call, for tools without side effects"
    )
    relays.add_argument(
        "--relay-effects", action="store_true", help="like --relay, for all tools; each call then needs approval"
    )
    parser.add_argument("--audit", metavar="FILE", help="where the relay writes a line for each call (default: stderr)")


def _run(arguments: Namespace) -> None:
    tools: list[AnyTool] = [tool for group in arguments.tools for tool in group]
    if not tools and not arguments.relay and not arguments.relay_effects and not arguments.engine:
        raise DefinitionError(
            "nothing to serve", hint="Name functions, such as my_tools.py:TOOLS, or use --engine or --relay."
        )
    if arguments.cap < 1:
        raise DefinitionError("--cap must be 1 or more", hint="Write --cap 1 or more.")
    # Tools that use the bus themselves find its address in this variable.
    os.environ[URL_VARIABLE] = arguments.nats
    asyncio.run(_serve(arguments, tools))


async def _serve(arguments: Namespace, tools: list[AnyTool]) -> None:
    key = key_of(arguments)
    sources: list[Source] = [Functions(tools, threads=arguments.cap)] if tools else []
    if arguments.relay or arguments.relay_effects:
        audit = _Audit(arguments.audit)
        sources.append(Relay(bus_of(arguments, key), audit=audit.write, allow_side_effects=arguments.relay_effects))
    if arguments.engine:
        # Imported here: a worker of functions needs no engine.
        from ferrule.engines.registry import load_engine
        from ferrule.llm_chat.source import ChatSource

        engine = load_engine(arguments.engine)
        print_startup_note(engine)
        sources.append(ChatSource(engine))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_task_factory(create_guarded_task)
    for stop_signal in _STOPS:
        loop.add_signal_handler(stop_signal, stop.set)
    async with AsyncExitStack() as stack:
        for source in sources:
            worker = Worker(
                source,
                arguments.nats,
                server=arguments.server,
                tenant=arguments.tenant,
                key=key,
                cap=arguments.cap,
                metadata=dict(arguments.label),
                credentials=arguments.credentials,
            )
            await stack.enter_async_context(worker)
            for capability in worker.capabilities:
                streams.write(f"serving {printable(str(capability))}\n")
            for notice in worker.notices:
                print(printable(notice), file=sys.stderr)
        streams.write("ready\n")
        await stop.wait()
        streams.write("stopping: waiting for running calls\n")


class _Audit:
    def __init__(self, path: str | None) -> None:
        self._path = path

    def write(self, line: Mapping[str, Any]) -> None:
        text = json_view.line(dict(line)) + "\n"
        if self._path is None:
            sys.stderr.write(text)
            return
        with Path(self._path).open("a", encoding="utf-8") as page:
            page.write(text)


def _label(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ArgumentTypeError(f"{text!r} is not NAME=TEXT")
    return name, value


COMMAND = Command(
    name="worker",
    about="Serve Python functions or a model on a NATS bus.",
    more="Each function is a capability: the one that its @tool is bound to, or SERVER.function@1.0. Stop it\n"
    "with Ctrl-C or SIGTERM: running calls finish, and queued calls go to another worker.",
    examples="  ferrule worker my_tools.py:TOOLS --nats nats://127.0.0.1:4222\n"
    "  ferrule worker my_package.tools --server kitchen --cap 4 --key-file bus.key\n"
    "  ferrule worker --engine llama:model.gguf\n"
    "  ferrule worker --relay --audit relay.jsonl",
    add_options=_add_options,
    run=_run,
)
