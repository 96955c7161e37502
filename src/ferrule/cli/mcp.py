"""`ferrule mcp`: shows the status of the MCP servers in an mcp.json, and signs in to those that want it."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.credentials_option import (
    add_credentials_options,
    add_store_options,
    on_credentials,
    place_of_credentials,
    require_account,
)
from ferrule.cli.mcp_call import call
from ferrule.cli.mcp_exit import NEEDS_LOGIN, exit_code, exit_code_text
from ferrule.cli.mcp_pins import diff, pin
from ferrule.cli.mcp_read import prompts, resources
from ferrule.cli.mcp_reencrypt import reencrypt
from ferrule.core.visible_text import visible
from ferrule.errors import DefinitionError
from ferrule.sources.mcp.config import McpConfig, Server, read_config
from ferrule.sources.mcp.credentials import CredentialStore, credential_id
from ferrule.sources.mcp.loopback import LoginError, sign_in
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.servers import McpServers, ServerStatus

_HEADINGS = ("server", "state", "protocol", "tools", "trust", "notices")


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    list_parser = actions.add_parser("list", help="connect to every server and show its status")
    list_parser.add_argument("--pins", metavar="FILE", help="pinned tool definitions, as written by Pins.to_json")
    list_parser.add_argument(
        "--wait", type=float, default=10.0, metavar="SECONDS", help="how long to wait for slow servers (default: 10)"
    )
    list_parser.add_argument("--json", action="store_true", help="print JSON, with the names of the tools")
    list_parser.set_defaults(act=_list)
    login = actions.add_parser("login", help="sign in to a server with your browser")
    login.add_argument("server", metavar="SERVER", help="the server's name in the file")
    login.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    login.add_argument("--wait", type=float, default=300.0, metavar="SECONDS", help="how long you have (default: 300)")
    login.set_defaults(act=_login)
    logout = actions.add_parser("logout", help="forget the tokens of a server")
    logout.add_argument("server", metavar="SERVER", help="the server's name in the file")
    logout.set_defaults(act=_logout)
    reencrypt_parser = actions.add_parser("reencrypt", help="encrypt all stored tokens with the newest key")
    add_store_options(reencrypt_parser)
    reencrypt_parser.set_defaults(act=reencrypt)
    pin_parser = actions.add_parser("pin", help="accept the definitions that servers list now")
    pin_parser.add_argument("server", nargs="?", metavar="SERVER", help="only this server's")
    pin_parser.add_argument("tool", nargs="?", metavar="TOOL", help="only this tool, by the server's name for it")
    pin_parser.set_defaults(act=_with_servers(pin))
    diff_parser = actions.add_parser("diff", help="show which definitions changed since they were pinned")
    diff_parser.set_defaults(act=_with_servers(diff))
    call_parser = actions.add_parser("call", help="call a tool, and print its answer")
    call_parser.add_argument("tool", metavar="TOOL", help="the name under which it is offered, such as files_read")
    call_parser.add_argument("arguments", nargs="?", default="{}", metavar="JSON", help="its arguments (default: {})")
    call_parser.add_argument("--yes", action="store_true", help="run a tool with side effects without a question")
    call_parser.set_defaults(act=_with_servers(call))
    resources_parser = actions.add_parser("resources", help="list the resources of a server, or read one")
    resources_parser.add_argument("server", metavar="SERVER", help="the server's name in the file")
    resources_parser.add_argument("uri", nargs="?", default="", metavar="URI", help="the resource to read")
    resources_parser.add_argument("--output", default="", metavar="FILE", help="write what is read to this file")
    resources_parser.set_defaults(act=_with_servers(resources))
    prompts_parser = actions.add_parser("prompts", help="list the prompts of a server, or get one")
    prompts_parser.add_argument("server", metavar="SERVER", help="the server's name in the file")
    prompts_parser.add_argument("name", nargs="?", default="", metavar="NAME", help="the prompt to get")
    prompts_parser.add_argument(
        "arguments", nargs="?", default="{}", metavar="JSON", help="its arguments (default: {})"
    )
    prompts_parser.set_defaults(act=_with_servers(prompts))
    for action in (pin_parser, diff_parser, call_parser, resources_parser, prompts_parser):
        action.add_argument(
            "--wait", type=float, default=10.0, metavar="SECONDS", help="how long to wait for servers (default: 10)"
        )
    for action in (pin_parser, diff_parser):
        action.add_argument(
            "--pins", default="mcp-pins.json", metavar="FILE", help="the file of pins (default: mcp-pins.json)"
        )
    for action in (
        list_parser,
        login,
        logout,
        pin_parser,
        diff_parser,
        call_parser,
        resources_parser,
        prompts_parser,
    ):
        action.add_argument(
            "--config", default="mcp.json", metavar="FILE", help="the configuration file (default: mcp.json)"
        )
        add_credentials_options(action)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _list(arguments: Namespace) -> None:
    config = read_config(arguments.config)
    pins = _pins(arguments.pins)
    statuses = on_credentials(arguments, config.servers, lambda store: _probe(config, pins, arguments.wait, store))
    _show(statuses, config, as_json=arguments.json)
    code = exit_code(statuses, config)
    if code:
        raise SystemExit(code)


def _show(statuses: tuple[ServerStatus, ...], config: McpConfig, *, as_json: bool) -> None:
    if as_json:
        page = {"servers": [asdict(status) for status in statuses], "faults": list(config.faults)}
        streams.write(json_view.page(page) + "\n")
        return
    rows = [_row(status) for status in statuses]
    if sys.stdout.isatty():
        terminal.show_table(_HEADINGS, rows)
        terminal.show_lines(config.faults)
        return
    streams.write("".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in (_HEADINGS, *rows)))
    # On stderr, so that a program can read the table on stdout.
    for fault in config.faults:
        print(fault, file=sys.stderr)


def _pins(path: str | None) -> Pins | None:
    if path is None:
        return None
    try:
        return Pins.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"cannot read {path}", hint="Name a file that Pins.to_json wrote.") from error


async def _probe(
    config: McpConfig, pins: Pins | None, seconds: float, store: CredentialStore
) -> tuple[ServerStatus, ...]:
    async with McpServers(config, pins=pins, settle_seconds=seconds, credentials=store) as source:
        return source.servers


def _login(arguments: Namespace) -> None:
    server = _server(arguments)
    require_account(arguments, server)

    async def show(address: str) -> None:
        print(f"Open this address to sign in to {server.name}:\n\n  {visible(address)}\n", file=sys.stderr)
        if not arguments.no_browser:
            await asyncio.to_thread(webbrowser.open, address)

    try:
        tools = on_credentials(arguments, [server], lambda store: sign_in(server, store, show, seconds=arguments.wait))
    except LoginError as error:
        print(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""), file=sys.stderr)
        raise SystemExit(NEEDS_LOGIN) from None
    place = place_of_credentials(arguments)
    streams.write(f"signed in to {server.name}: {len(tools)} tools; the tokens are in {place}\n")


def _logout(arguments: Namespace) -> None:
    server = _server(arguments)
    require_account(arguments, server)
    was_signed_in = on_credentials(arguments, [server], lambda store: store.remove(credential_id(server)))
    streams.write(f"forgot the tokens of {server.name}\n" if was_signed_in else f"{server.name} has no tokens here\n")


def _with_servers(act: Callable[[Namespace, McpConfig], None]) -> Callable[[Namespace], None]:
    def run(arguments: Namespace) -> None:
        config = read_config(arguments.config)
        if config.faults:
            raise DefinitionError(f"{arguments.config}: {config.faults[0]}", hint="Mend the entry.")
        act(arguments, config)

    return run


def _server(arguments: Namespace) -> Server:
    config = read_config(arguments.config)
    server = next((one for one in config.servers if one.name == arguments.server), None)
    if server is None:
        faults = [fault for fault in config.faults if fault.startswith(f"{arguments.server}:")]
        names = ", ".join(one.name for one in config.servers) or "none"
        raise DefinitionError(
            faults[0] if faults else f"{arguments.config} has no server {arguments.server!r}",
            hint="Mend its entry." if faults else f"It has: {names}.",
        )
    return server


def _row(status: ServerStatus) -> tuple[str, ...]:
    trust = "trusted" if status.trusted else "not trusted"
    return (
        status.name,
        status.state,
        status.protocol_version,
        str(len(status.tools)),
        trust,
        "\n".join(status.notices),
    )


COMMAND = Command(
    name="mcp",
    about="Show MCP servers, sign in to them, pin their tools.",
    more="list starts or connects to every server in the file, concurrently, and lists its tools. It calls no\n"
    "tool. The notices say which servers are unavailable, which tools are not offered and why, and\n"
    "which tools are offered under another name.\n\n"
    "login opens your browser for a server that wants a sign-in, and keeps its tokens for you, the gateway\n"
    "and your programs. They are encrypted if FERRULE_CREDENTIALS_KEY is set. With --ledger they are kept in the\n"
    'ledger of a gateway whose mcp_credentials is "ledger". reencrypt encrypts all of them with the first key of\n'
    "FERRULE_CREDENTIALS_KEY, after which the others can go.\n\n"
    "pin accepts definitions of tools, which sources.mcp_pins then holds the servers to; diff shows what\n"
    "changed since. call runs one tool. resources and prompts list and read what a server has besides tools.\n\n"
    f"exit codes:\n{exit_code_text()}",
    examples="  ferrule mcp list\n  ferrule mcp list --config .vscode/mcp.json --json\n  ferrule mcp login github\n"
    "  ferrule mcp reencrypt --ledger postgresql://ferrule@db/ferrule\n"
    '  ferrule mcp diff --pins pins.json\n  ferrule mcp call files_list_directory \'{"path": "."}\'\n'
    "  ferrule mcp resources wiki wiki://pages/start",
    add_options=_add_options,
    run=_run,
)
