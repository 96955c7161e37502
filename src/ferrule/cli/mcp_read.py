"""`ferrule mcp resources` and `ferrule mcp prompts`: list and read what a server has besides tools."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

from ferrule.cli import json_view, streams
from ferrule.cli.credentials_option import on_credentials
from ferrule.cli.mcp_exit import FOUND, NOT_RUN, exit_code
from ferrule.core.context import CallContext
from ferrule.core.json_text import dumps, loads
from ferrule.core.media import media_line
from ferrule.core.outcome import Answered
from ferrule.core.visible_text import visible, visible_prose
from ferrule.errors import DefinitionError
from ferrule.rules.call_check import argument_text_faults
from ferrule.sources.mcp.access import ToolAccess
from ferrule.sources.mcp.config import McpConfig, Server
from ferrule.sources.mcp.credentials import CredentialStore
from ferrule.sources.mcp.options import ResourceAccess
from ferrule.sources.mcp.resource_tools import GET_PROMPT, LIST_PROMPTS, LIST_RESOURCES, READ_RESOURCE
from ferrule.sources.mcp.servers import McpServers, offered_name, prefixes
from ferrule.sources.mcp.tool_list import ListedTool

_MAX_PAGES = 200


def resources(arguments: Namespace, config: McpConfig) -> None:
    """List the resources of a server, or write one of them."""
    if not arguments.uri:
        if arguments.output:
            raise DefinitionError("--output is for one resource", hint="Name its URI too.")
        pages = _pages(_ask(arguments, config, LIST_RESOURCES, {}))
        rows = [(one["uri"], one["name"], one.get("mimeType", "")) for page in pages for one in page["resources"]]
        _write_rows(
            [*rows, *((one["uriTemplate"], one["name"], "template") for page in pages for one in page["templates"])]
        )
        return
    (answer,) = _ask(arguments, config, READ_RESOURCE, {"uri": arguments.uri})
    if not arguments.output:
        _write_answer(answer)
        return
    content = _only_part(answer)
    try:
        Path(arguments.output).write_bytes(content)
    except OSError as error:
        raise DefinitionError(
            f"{arguments.output} cannot be written: {error.strerror}", hint="Name a file in a folder that exists."
        ) from error


def prompts(arguments: Namespace, config: McpConfig) -> None:
    """List the prompts of a server, or write the messages of one of them."""
    if not arguments.name:
        pages = _pages(_ask(arguments, config, LIST_PROMPTS, {}))
        rows = [
            (one["name"], _arguments_text(one), one.get("description", "")) for page in pages for one in page["prompts"]
        ]
        _write_rows(rows)
        return
    try:
        values: object = loads(arguments.arguments)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(
            "the arguments of a prompt are not JSON", hint='Write an object of strings, such as \'{"city": "Oslo"}\'.'
        ) from error
    _write_answer(_ask(arguments, config, GET_PROMPT, {"name": arguments.name, "arguments": values})[0])


def _arguments_text(prompt: Mapping[str, Any]) -> str:
    return ", ".join(one["name"] + ("" if one.get("required") else "?") for one in prompt.get("arguments") or ())


def _write_rows(rows: list[tuple[str, str, str]]) -> None:
    streams.write("".join("\t".join(visible(" ".join(cell.split())) for cell in row) + "\n" for row in rows))


def _write_answer(answer: Answered) -> None:
    text = _text(answer)
    # A program gets what the server wrote. A terminal would obey it.
    shown = visible_prose(text) if sys.stdout.isatty() else text
    lines = [*([shown] if shown else []), *(visible(media_line(one)) for one in answer.media)]
    streams.write("".join(f"{line}\n" for line in lines))


def _text(answer: Answered) -> str:
    if isinstance(answer.content, str):
        return answer.content
    blocks = cast("list[dict[str, Any]]", answer.content)
    return "\n".join(str(one.get("text", json_view.line(one))) for one in blocks)


def _only_part(answer: Answered) -> bytes:
    """The bytes of a resource, for a file. A file that is only a part of it, or a note about it, would mislead."""
    blocks = cast("list[dict[str, Any]]", answer.content or [])
    if len(blocks) + len(answer.media) != 1:
        count = len(blocks) + len(answer.media)
        raise DefinitionError(f"the resource has {count} parts, and a file has one", hint="Leave out --output.")
    if answer.media:
        return answer.media[0].content
    if "text" not in blocks[0]:
        raise DefinitionError("the data of the resource is damaged", hint="Report it to the people of the server.")
    return str(blocks[0]["text"]).encode()


def _pages(answers: list[Answered]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", answer.content) for answer in answers]


def _ask(arguments: Namespace, config: McpConfig, tool: ListedTool, values: dict[str, Any]) -> list[Answered]:
    """Return what the server answers: a list with all its pages. Exits with a message if it gives no answer."""
    server = next((one for one in config.servers if one.name == arguments.server), None)
    if server is None:
        names = ", ".join(one.name for one in config.servers) or "none"
        raise DefinitionError(f"{arguments.config} has no server {arguments.server!r}", hint=f"It has: {names}.")
    # A person may read what the server's entry keeps from models.
    server = replace(server, access=ToolAccess(), resources=ResourceAccess(), prompts=True)
    return on_credentials(arguments, [server], lambda store: _answers(server, tool, values, arguments.wait, store))


async def _answers(
    server: Server, tool: ListedTool, values: dict[str, Any], seconds: float, store: CredentialStore
) -> list[Answered]:
    kind = "prompts" if tool in (LIST_PROMPTS, GET_PROMPT) else "resources"
    async with McpServers([server], settle_seconds=seconds, credentials=store) as source:
        code = exit_code(source.statuses, McpConfig())
        if code:
            _fail(code, "; ".join(source.notices))
        name = offered_name(prefixes([server.name])[server.name], server.name, tool.name)
        definition = next((one for one in await source.tools() if one.name == name), None)
        if definition is None:
            _fail(FOUND, f"{server.name} has no {kind}", "Its tools are shown by: ferrule mcp list --json.")
        faults = argument_text_faults(definition, dumps(values))
        if faults:
            words = "; ".join(map(str, faults))
            raise DefinitionError(f"the arguments do not fit: {words}", hint="A prompt takes an object of strings.")
        answers: list[Answered] = []
        for cursor in _cursors(answers):
            outcome = await source.call(name, {**values, **cursor}, CallContext())
            if not isinstance(outcome, Answered):
                _fail(NOT_RUN, outcome.reason)
            if outcome.is_error:
                _fail(FOUND, str(outcome.content), f"What there is: ferrule mcp {kind} {server.name}.")
            answers.append(outcome)
        return answers


def _cursors(answers: list[Answered]) -> Iterator[dict[str, str]]:
    """The cursors of all pages, as `answers` grows. A server whose list does not end is an error."""
    yield {}
    for number in range(1, _MAX_PAGES + 1):
        content: Any = answers[-1].content
        cursor = cast("dict[str, Any]", content).get("next_cursor") if isinstance(content, dict) else None
        if not cursor:
            return
        if number == _MAX_PAGES:
            _fail(FOUND, f"the list has more than {_MAX_PAGES} pages", "Its server may repeat one for ever.")
        yield {"cursor": cursor}


def _fail(code: int, reason: str, hint: str = "") -> NoReturn:
    print(f"error: {visible(reason)}" + (f"\nhint: {visible(hint)}" if hint else ""), file=sys.stderr)
    raise SystemExit(code)
