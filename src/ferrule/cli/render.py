"""`ferrule render`: a reply in, the text out that a model of the family would have written."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace

from ferrule.cli import streams
from ferrule.cli.command import Command, add_format_option, add_tools_option
from ferrule.cli.reply_json import reply_from_json
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.wire.arrange import arranged
from ferrule.wire.format import Format
from ferrule.wire.render import render


def _add_options(parser: ArgumentParser) -> None:
    add_format_option(parser)
    add_tools_option(parser)
    parser.add_argument(
        "--convert",
        action="store_true",
        help="the reply came from another format: put its parts into this one's order and make new ids",
    )


def _run(arguments: Namespace) -> None:
    reply = reply_from_json("".join(streams.pieces(None)))
    if arguments.convert:
        reply = _converted(arguments.format, reply)
    streams.write(render(arguments.format, reply, arguments.tools))


def _converted(format: Format, reply: Reply) -> Reply:
    parts = tuple(replace(part, id="") if isinstance(part, ToolCall) else part for part in reply.parts)
    placed = arranged(format, Reply(parts))
    kept = {part.__class__ for part in placed.parts}
    for lost in dict.fromkeys(part.__class__ for part in parts if part.__class__ not in kept):
        print(f"note: {lost.__name__.lower()} is left out: {format.name} has no place for it", file=sys.stderr)
    return placed


COMMAND = Command(
    name="render",
    about="Read a reply as JSON from stdin and print it as the family writes it.",
    more='Takes what `ferrule parse` prints, or {"reasoning", "text", "calls": [{"name", "arguments"}]}.\n'
    "A reply that would be read back as something else is refused.",
    examples='  echo \'{"calls": [{"name": "get_weather", "arguments": {"city": "Rome"}}]}\' |\n'
    "    ferrule render --format mistral_v3\n"
    "  ferrule parse --format hermes < reply.txt | ferrule render --format qwen_xml --convert",
    add_options=_add_options,
    run=_run,
)
