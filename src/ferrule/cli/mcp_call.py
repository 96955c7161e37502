"""`ferrule mcp call`: calls one tool of an MCP server, to see what it does."""

from __future__ import annotations

import secrets
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, cast

from ferrule.cli import json_view, streams
from ferrule.cli.credentials_option import on_credentials
from ferrule.cli.mcp_exit import FOUND, NOT_RUN, UNKNOWN, exit_code
from ferrule.core.context import CallContext
from ferrule.core.json_text import loads
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import visible
from ferrule.errors import DefinitionError
from ferrule.rules.call_check import argument_text_faults
from ferrule.sources.mcp.config import McpConfig
from ferrule.sources.mcp.credentials import CredentialStore
from ferrule.sources.mcp.servers import McpServers


def call(arguments: Namespace, config: McpConfig) -> None:
    outcome = on_credentials(arguments, config.servers, lambda store: _call(arguments, config, store))
    match outcome:
        case Answered(content, is_error):
            streams.write(f"{content if isinstance(content, str) else json_view.page(content)}\n")
            code = FOUND if is_error else 0
        case NotDelivered(reason):
            print(f"not delivered: {visible(reason)}", file=sys.stderr)
            code = NOT_RUN
        case Unknown(reason):
            print(f"it may have run: {visible(reason)}", file=sys.stderr)
            code = UNKNOWN
    if code:
        raise SystemExit(code)


async def _call(arguments: Namespace, config: McpConfig, store: CredentialStore) -> Outcome:
    async with McpServers(config, settle_seconds=arguments.wait, credentials=store) as source:
        tools = {tool.name: tool for tool in await source.tools()}
        tool = tools.get(arguments.tool)
        if tool is None:
            names = ", ".join(sorted(tools)[:_SHOWN]) or "none; see ferrule mcp list"
            # The tool may be one of a server that failed: then neither the name nor the file is wrong.
            for notice in source.notices:
                print(visible(notice), file=sys.stderr)
            print(f"error: there is no tool {arguments.tool!r}\nhint: Tools: {names}.", file=sys.stderr)
            raise SystemExit(exit_code(source.statuses, McpConfig()) or FOUND)
        faults = argument_text_faults(tool, arguments.arguments)
        if faults:
            raise DefinitionError(
                f"the arguments do not fit: {'; '.join(map(str, faults))}", hint=json_view.line(tool.parameters)
            )
        if tool.side_effects and not arguments.yes:
            _ask(tool, arguments.arguments)
        values = cast("Mapping[str, Any]", loads(arguments.arguments))
        return await source.call(tool.name, values, CallContext(call_id=f"call_{secrets.token_hex(12)}"))


_SHOWN = 20


def _ask(tool: ToolDefinition, arguments: str) -> None:
    """Ask before a tool that may have side effects runs: only a `trusted` server is believed that it has none."""
    if not sys.stdin.isatty():
        raise DefinitionError(f"{tool.name} may have side effects", hint="Add --yes to run it.")
    print(f"{tool.name} may have side effects. Run it with {visible(arguments)}? [y/N] ", end="", file=sys.stderr)
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise DefinitionError("not run", hint="Answer y, or add --yes.")
