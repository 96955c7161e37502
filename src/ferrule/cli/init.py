"""`ferrule init`: writes a configuration, tools and a client's settings, and tests the engine."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path

from ferrule.cli import streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.config import missing_files
from ferrule.cli.doctor import show_engine
from ferrule.cli.doctor_engine import url_in
from ferrule.cli.init_files import (
    CLIENTS,
    CONFIG_FILE,
    FIRST_CALL,
    MODEL,
    QUESTION,
    TOOLS,
    TOOLS_FILE,
    Client,
    config_text,
    refuse_existing,
    toml_string,
    write_files,
)
from ferrule.cli.serve import curl, local_url
from ferrule.cli.serve_sources import functions_of
from ferrule.engines.registry import IN_PROCESS, parse_engine_spec
from ferrule.errors import DefinitionError
from ferrule.server.config.config import Config, SourcesConfig
from ferrule.server.config.loader import parse_config
from ferrule.server.config.validation import url_of

ENGINE = "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
_EXAMPLE, _CURL, _PORT, _MAX_PORT = "example", "curl", 8000, 65_535


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-e", "--engine", help=f"such as hf:OWNER/NAME, llama:MODEL.gguf, vllm:URL or openai:MODEL (default: {ENGINE})"
    )
    parser.add_argument(
        "-t",
        "--tools",
        metavar="MODULE:NAME",
        help=f"your own Python functions, which are used as they are (default: an example is written to {TOOLS_FILE})",
    )
    parser.add_argument("--client", choices=list(CLIENTS), help=f"what asks the gateway (default: {_CURL})")
    parser.add_argument("--port", type=_port, default=_PORT, help=f"where the gateway will listen (default: {_PORT})")
    parser.add_argument("--force", action="store_true", help="replace files that are there already")
    parser.add_argument("--no-doctor", action="store_true", help="do not load and test the engine")


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _MAX_PORT:
        raise ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _run(arguments: Namespace) -> None:
    _check_folder()
    if not arguments.force:
        # The questions would be answered for nothing.
        refuse_existing([CONFIG_FILE])
    engine = _setting(arguments.engine, "Engine", ENGINE, _check_engine)
    tools = _setting(arguments.tools, f"Tools: MODULE:NAME, or {_EXAMPLE}", _EXAMPLE, _check_tools)
    client = CLIENTS[_setting(arguments.client, f"Client: {', '.join(CLIENTS)}", _CURL, _check_client)]

    functions = TOOLS_FILE if tools == _EXAMPLE else tools
    text = config_text(engine, functions, arguments.port, _engine_options(engine, client))
    # The same reading and checks as those of `ferrule serve` and `ferrule config check`.
    config = parse_config(text, CONFIG_FILE, os.environ).config
    problems = list(missing_files(config))
    if problems:
        raise DefinitionError("; ".join(problems), hint="Nothing was written.")
    files = {CONFIG_FILE: text}
    if tools == _EXAMPLE:
        files[TOOLS_FILE] = TOOLS
    if client.file:
        files[client.file] = client.text(local_url(config, config.server.port))
    write_files(files, replaces=arguments.force)
    streams.write(f"wrote {', '.join(files)}\n\n")

    use = next(one.use for one in config.engines if one.name == MODEL)
    works = arguments.no_doctor or show_engine(use)
    streams.write(terminal.printable(_next_steps(config, client, has_example=tools == _EXAMPLE, works=works)))
    if not works:
        raise SystemExit(1)


def _check_folder() -> None:
    try:
        is_home = Path.cwd().samefile(os.path.expanduser("~"))
    except OSError:
        # There is no home folder, or the current one was removed: then nothing can be written there.
        is_home = False
    if is_home:
        raise DefinitionError("this is your home folder", hint="Create a folder for the gateway, and run it there.")


def _setting(flag: str | None, question: str, default: str, check: Callable[[str], None]) -> str:
    """The flag if it is given, else the answer of a person at a terminal, else the default."""
    if flag is not None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        value = default if flag is None else flag
        check(value)
        return value
    while True:
        try:
            answer = input(f"{question} [{default}]: ").strip() or default
        except EOFError:
            raise DefinitionError("a question was not answered", hint="Nothing was written.") from None
        try:
            check(answer)
        except DefinitionError as error:
            terminal.show_error(error.message, error.hint)
        else:
            return answer


def _check_engine(engine: str) -> None:
    toml_string(engine)
    key = parse_engine_spec(engine).options.get("key", "")
    if key and not key.startswith("${"):
        raise DefinitionError(
            f"the key of an engine does not belong into {CONFIG_FILE}",
            hint="Put it into an environment variable, and write key=${NAME}.",
        )
    # A variable has its value only in the configuration, which is checked as a whole.
    if "${" not in engine and url_in(engine):
        raise DefinitionError(
            f"{engine!r} is a URL, not an engine",
            hint="Write vllm:URL, sglang:URL, llama-server:URL or openai:MODEL?url=URL/v1.",
        )


def _check_tools(place: str) -> None:
    if place != _EXAMPLE:
        toml_string(place)
        functions_of(SourcesConfig(functions=(place,)))


def _check_client(name: str) -> None:
    if name not in CLIENTS:
        raise DefinitionError(f"unknown client {name!r}", hint=f"Known: {', '.join(CLIENTS)}.")


def _engine_options(engine: str, client: Client) -> dict[str, int]:
    """What a client needs of an engine whose context is chosen here, and not by a server."""
    spec = parse_engine_spec(engine)
    if not client.context or spec.kind not in IN_PROCESS:
        return {}
    options = {"context": client.context, "slots": client.slots}
    return {name: value for name, value in options.items() if name not in spec.options}


def _next_steps(config: Config, client: Client, *, has_example: bool, works: bool) -> str:
    port = config.server.port
    call = curl(config, port, QUESTION, FIRST_CALL) if has_example else curl(config, port)
    lines = [
        "start the gateway:" if works else "the engine does not work yet; when it does, start the gateway:",
        f"  ferrule serve --config {CONFIG_FILE}",
        "then, in another terminal, ask it:",
        f"  {call}",
        *([f"  {client.command}"] if client.command else []),
    ]
    context_is_theirs = client.context and any(url_of(engine) for engine in config.engines)
    if context_is_theirs:
        lines.append(f"{client.name} needs a context of {client.context} tokens: see that the engine's server has it")
    return "\n" + "\n".join(lines) + "\n"


COMMAND = Command(
    name="init",
    about="Write a first configuration, tools and a client's settings.",
    more="Writes ferrule.toml and an example tools.py into the current folder, and the settings of a client: a\n"
    "program with the openai SDK, or the lines for Claude Code, Codex or opencode. It then tests the engine\n"
    "as `ferrule doctor` does, and prints what to run next. On a terminal it asks for what no option gives.\n"
    "It writes only into the current folder, and nothing at all if one of the files exists.",
    examples="  ferrule init\n"
    "  ferrule init --engine llama:model.gguf --client codex\n"
    "  ferrule init --engine 'openai:small?url=https://example.com/v1&key=${MY_KEY}' --tools my_tools.py:TOOLS",
    add_options=_add_options,
    run=_run,
)
