"""`ferrule config`: validates a gateway's configuration, shows what it would serve, and documents the settings."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import shlex
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ferrule.cli import streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.config_view import HEADINGS, Row, config_rows, effects_of
from ferrule.cli.ledger_option import one_or_all
from ferrule.cli.serve_flags import PLACES
from ferrule.cli.serve_sources import bus_of, mcp_of, sources_of
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.engines.registry import ENGINES, load_engine, parse_engine_spec
from ferrule.errors import DefinitionError, FerruleError
from ferrule.run.ledger.address import open_ledger
from ferrule.server.auth.host import host_of, is_loopback
from ferrule.server.config.config import CREDENTIALS_IN_LEDGER, Config, EngineConfig
from ferrule.server.config.loader import load_config
from ferrule.server.config.tables import PREFIX, TABLES, Setting, Table, variables_of
from ferrule.server.config.validation import find_warnings
from ferrule.server.secret_mask import mask_secrets
from ferrule.sources.mcp.account_connections import account_of, has_own_accounts
from ferrule.sources.mcp.config import HttpTransport, McpConfig, Server
from ferrule.sources.mcp.credentials import (
    CredentialStore,
    MemoryCredentials,
    credential_id,
    default_credentials,
    read_keys,
)
from ferrule.sources.mcp.login import account_hint
from ferrule.sources.mcp.sealed_credentials import SealedCredentials, require_key
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.status import SourceState

_HEAD = """# Settings

Generated from the classes in `src/ferrule/server/config/config.py` by `ferrule config settings`. A test keeps it up to
date.

You can set a setting with a flag of `ferrule serve`, with an environment variable, or in `ferrule.toml` (in the current
directory, or `--config FILE`). A flag overrides a variable, a variable overrides the file, and the file overrides the
default. `ferrule config check` reads all of them, shows what would be served, and reports each error with its location
and a fix.

- A variable is named `FERRULE_TABLE_SETTING`, in capitals. If a table has a name, it is
  `FERRULE_TABLE_NAME_SETTING`; characters in the name that are not letters or digits become `_`.
  `FERRULE_ENGINES_SMOL_USE` sets `use` of the engine `smol`, and creates that engine if it does not exist.
- A list in a variable is separated by commas, or is a JSON list: `a,b` or `["a", "b"]`.
- `${NAME}` in a string in the file is replaced by the environment variable; `${NAME:-default}` gives a default. Write
  `$${` for a literal `${`.
- Paths are relative to the directory where the gateway is started.
- Unknown settings, tables and variables are errors, and so are values of the wrong type.
"""
_ROW_HEAD = "| setting | type | default | also set by | description |\n| --- | --- | --- | --- | --- |\n"
_TITLES = {"engines": "[engines.NAME]", "models": "[models.NAME]", "keys": "[[keys]]"} | {
    name: f"[{name}.NAME]" for name in ("openapi", "quotas")
}
_MORE = {
    "engines": "Engine options can be separate settings, such as `key` and `url` here; they need no escaping.\n\n"
    '```toml\n[engines.big]\nuse = "openai:gpt-x"\nurl = "https://api.example.com/v1"\nkey = "${EXAMPLE_KEY}"\n```\n',
    "models": "An engine that no model names is served as a model under its own name.\n\n"
    '```toml\n[models.smol]\nengines = ["here", "there"]\n```\n',
    "keys": "Each key has a `name`. `ferrule keys new NAME` generates a key and prints these lines for it.\n",
    "tools": "The variables are also read without the prefix `FERRULE_`.\n",
}


def settings_page() -> str:
    return _HEAD + "".join(map(_section, TABLES.values()))


def abouts(owner: type[Any]) -> dict[str, str]:
    """The docstring under each field of a class, from the source, because Python does not keep them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    texts: dict[str, str] = {}
    for statement, after in pairwise(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            texts[statement.target.id] = " ".join(text.split()) if isinstance(text, str) else ""
    return texts


def _section(table: Table) -> str:
    about = " ".join((inspect.getdoc(table.config_class) or "").split("\n\n")[0].split())
    descriptions = {**abouts(Config), **abouts(table.config_class)}
    rows = "".join(_row(table, setting, descriptions.get(setting.name, "")) for setting in table.settings.values())
    more = f"\n{_MORE[table.name]}" if table.name in _MORE else ""
    title = _TITLES.get(table.name, f"[{table.name}]")
    return f"\n## {title}\n\n{about}\n\n{_ROW_HEAD}{rows}{more}"


def _row(table: Table, setting: Setting, about: str) -> str:
    default = "" if setting.is_required else f"`{_toml(setting.default)}`"
    also = ", ".join(f"`{entry}`" for entry in _also(table, setting))
    cells = (f"`{setting.name}`", setting.setting_type.description, default or "required", also, about)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |\n"


def _also(table: Table, setting: Setting) -> Iterator[str]:
    if table.is_named:
        yield f"{PREFIX}{table.name.upper()}_NAME_{setting.name.upper()}"
    else:
        yield variables_of(setting)[0]
    for option, place in PLACES.items():
        if place == (table.name, setting.name):
            yield f"--{option.replace('_', '-')}"


def _toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)  # pyright: ignore[reportUnknownArgumentType]  # texts


_TIMEOUT_SECONDS = 60.0
_READY, _NEEDS_LOGIN = SourceState.READY.value, SourceState.NEEDS_LOGIN.value


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Table rows, what to know before serving, and what is wrong."""

    rows: list[Row] = field(default_factory=list[Row])
    warnings: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])


async def probe_config(config: Config) -> ProbeResult:
    """Probe every engine and source. Nobody is asked to sign in to anything."""
    found = ProbeResult()
    for result in await asyncio.gather(*(_engine(engine) for engine in config.engines), _mcp(config), _bus(config)):
        found.rows.extend(result.rows)
        found.warnings.extend(result.warnings)
        found.problems.extend(result.problems)
    return found


async def _engine(engine: EngineConfig) -> ProbeResult:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            message = await _one_token(engine.use)
    except TimeoutError:
        message = f"no answer within {_TIMEOUT_SECONDS:g} seconds"
    except FerruleError as failure:
        message = mask_secrets(failure.message)
    else:
        return ProbeResult([("engine", engine.name, message, "probe")])
    row = ("engine", engine.name, "does not answer", "probe")
    return ProbeResult([row], problems=[f"engine {engine.name}: {message}"])


async def _one_token(use: str) -> str:
    # In a thread: an in-process engine loads its model when it is created.
    engine = await asyncio.to_thread(load_engine, use)
    request = ToolCallRequest(messages=(ChatMessage.user("Hello."),), max_tokens=1)
    try:
        async with aclosing(engine.stream(request)) as events:
            async for _ in events:
                pass
    finally:
        await engine.close()
    return f"answers ({engine.traits.name})"


async def _mcp(config: Config) -> ProbeResult:
    servers = mcp_of(config.sources).servers
    result = ProbeResult()
    if not servers:
        return result
    async with _credentials(config) as store:
        # Where people have accounts of their own, a check would have to take somebody's.
        own = [server for server in servers if has_own_accounts(server)]
        shared = McpConfig(tuple(server for server in servers if server not in own))
        async with McpServers(shared, settle_seconds=_TIMEOUT_SECONDS, credentials=store) as source:
            found = {status.name: status for status in source.servers}
        is_signed_in = {server.name: await _has_account(store, server) for server in own}
    for server in servers:
        status = found.get(server.name)
        if status is None:
            account = "tenant" if account_of(server, "tenant", "name")[1] == "" else "principal"
            state = f"an account for each {account}" if is_signed_in[server.name] else _NEEDS_LOGIN
        else:
            state = f"{status.state}, {len(status.tools)} tools" if status.state != _NEEDS_LOGIN else _NEEDS_LOGIN
            if status.state not in (_READY, _NEEDS_LOGIN):
                result.problems.append(f"the MCP server {server.name}: {'; '.join(status.notices)}")
        if state == _NEEDS_LOGIN:
            # The gateway starts without it, and offers its tools as soon as somebody has signed in.
            result.warnings.append(f"the MCP server {server.name} needs a login: {_login_hint(config, server)}")
        result.rows.append(("source", f"MCP {server.name}", state, "probe"))
    return result


@asynccontextmanager
async def _credentials(config: Config) -> AsyncGenerator[CredentialStore]:
    """The tokens that the gateway would use."""
    place = config.sources.mcp_credentials
    if place != CREDENTIALS_IN_LEDGER:
        yield default_credentials(place)
        return
    keys = read_keys()
    require_key(keys)
    if any(not Path(path).exists() for path in _files(config)):
        # The gateway creates it, and nobody has signed in yet.
        yield MemoryCredentials()
        return
    async with await open_ledger(one_or_all(config.ledger_addresses), must_exist=True) as ledger:
        yield SealedCredentials(ledger, keys)


async def _has_account(store: CredentialStore, server: Server) -> bool:
    return isinstance(store, SealedCredentials) and bool(await store.accounts(credential_id(server), 1))


def _login_hint(config: Config, server: Server) -> str:
    """How to sign in, with the options that name this configuration's files. A ledger's address may be secret."""
    settings = config.sources
    in_ledger = settings.mcp_credentials == CREDENTIALS_IN_LEDGER
    hint = account_hint(server.name, *account_of(server, "TENANT", "NAME")).removesuffix(" --ledger LEDGER")
    options = [f"--config {shlex.quote(settings.mcp_config)}"]
    options += ["--ledger LEDGER"] if in_ledger else []
    if settings.mcp_credentials and not in_ledger:
        options.append(f"--credentials {shlex.quote(settings.mcp_credentials)}")
    return " ".join((hint, *options))


async def _bus(config: Config) -> ProbeResult:
    if not config.sources.nats:
        return ProbeResult()
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS), bus_of(config.sources) as bus:
            tools = await bus.tools()
    except (FerruleError, TimeoutError) as failure:
        message = failure.message if isinstance(failure, FerruleError) else "no answer"
        row = ("source", "NATS", "does not answer", "probe")
        return ProbeResult([row], problems=[f"NATS: {mask_secrets(message)}"])
    return ProbeResult([("source", "NATS", f"{len(tools)} tools", "probe")])


_DATABASES = ("postgresql://", "postgres://")


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    check_parser = actions.add_parser("check", help="show what would be served, with errors and warnings")
    check_parser.add_argument("file", nargs="?", metavar="FILE", help="(default: ./ferrule.toml, if it exists)")
    check_parser.add_argument(
        "--online", action="store_true", help="also connect to the engines, the MCP servers and NATS"
    )
    check_parser.set_defaults(act=_check)
    settings_parser = actions.add_parser("settings", help="print every setting with its description, as Markdown")
    settings_parser.set_defaults(act=lambda arguments: streams.write(settings_page()))  # pyright: ignore[reportUnknownLambdaType]


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _check(arguments: Namespace) -> None:
    loaded = load_config(arguments.file, os.environ)
    config = loaded.config
    sources_of(config.sources, config.openapi)
    problems = [*missing_files(config), *_account_errors(config)]
    probe = asyncio.run(probe_config(config)) if arguments.online and not problems else ProbeResult(problems=problems)
    problems = probe.problems
    _show([*config_rows(loaded), *probe.rows])
    for warning in (*find_warnings(config, effects_of(config)), *_server_warnings(config), *probe.warnings):
        print(terminal.printable(f"warning: {warning}"), file=sys.stderr)
    if problems:
        raise DefinitionError("the configuration is invalid:" + "".join(f"\n  {problem}" for problem in problems))
    streams.write("ok\n")


def _show(rows: list[tuple[str, str, str, str]]) -> None:
    if sys.stdout.isatty():
        terminal.show_table(HEADINGS, [(*row,) for row in rows])
        return
    cells = (" ".join(terminal.printable(cell).split()) for row in (HEADINGS, *rows) for cell in row)
    lines = zip(*[cells] * len(HEADINGS), strict=True)
    streams.write("".join("\t".join(line) + "\n" for line in lines))


def missing_files(config: Config) -> Iterator[str]:
    """Errors for files that the configuration names and that do not exist."""
    for engine in config.engines:
        parts = parse_engine_spec(engine.use)
        entry = ENGINES.get(parts.kind)
        paths = [parts.argument] if entry is not None and entry.argument == "PATH" else []
        for path in (*paths, parts.options.get("checkpoint", "")):
            if path and not Path(path).exists():
                yield f"engine {engine.name}: file not found: {path}"
    for path in _files(config):
        if not path.parent.is_dir():
            yield f"ledger: directory not found: {path.parent}"


def _account_errors(config: Config) -> Iterator[str]:
    if config.sources.mcp_credentials == CREDENTIALS_IN_LEDGER:
        return
    for server in mcp_of(config.sources).servers:
        if has_own_accounts(server):
            yield (
                f"the MCP server {server.name}: its callers have accounts of their own, which a ledger keeps. "
                'Set mcp_credentials = "ledger" in [sources]'
            )


def _files(config: Config) -> list[Path]:
    """The files of the ledger."""
    addresses = [address for address in config.ledger_addresses if not address.startswith(_DATABASES)]
    return [Path(address.removeprefix("sqlite:///")) for address in addresses]


def _server_warnings(config: Config) -> Iterator[str]:
    servers = mcp_of(config.sources)
    yield from (f"{config.sources.mcp_config}: {fault}" for fault in servers.faults)
    for server in servers.servers:
        transport = server.transport
        if (
            isinstance(transport, HttpTransport)
            and transport.url.startswith("http://")
            and not is_loopback(host_of(transport.url))
        ):
            yield f"the MCP server {server.name} is reached over unencrypted http"


COMMAND = Command(
    name="config",
    about="Validate a gateway configuration and show it.",
    more="Reads ferrule.toml and the environment as `ferrule serve` does. `check` exits with 1 if the configuration\n"
    "is invalid, and warns about risky settings. It starts nothing and, without --online, connects to nothing.",
    examples="  ferrule config check\n  ferrule config check ferrule.toml --online\n  ferrule config settings",
    add_options=_add_options,
    run=_run,
)
