"""`ferrule render`: a reply in, the text out that a model of the family would have written."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace

from ferrule.cli import streams
from ferrule.cli.command import Command, add_format_option, add_tools_option
from ferrule.cli.reply_json import GivenReply, reply_from_json
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.wire.format import Format
from ferrule.wire.part_order import arranged
from ferrule.wire.renderer import render


def _add_options(parser: ArgumentParser) -> None:
    add_format_option(parser)
    add_tools_option(parser)
    parser.add_argument(
        "--convert",
        action="store_true",
        help="the reply came from another format: put its parts into this one's order and make new ids",
    )


def _run(arguments: Namespace) -> None:
    given = reply_from_json("".join(streams.pieces(None)))
    place = _converted if arguments.convert else _as_given
    streams.write(render(arguments.format, place(arguments.format, given), arguments.tools))


def _as_given(format: Format, given: GivenReply) -> Reply:
    """What has no order is put into the format's, unless something would be lost: rendering then says what and why."""
    placed = arranged(format, given.reply)
    return given.reply if given.is_ordered or _lost(given.reply, placed) else placed


def _converted(format: Format, given: GivenReply) -> Reply:
    parts = tuple(replace(part, id="") if isinstance(part, ToolCall) else part for part in given.reply.parts)
    placed = arranged(format, Reply(parts))
    for kind in _lost(given.reply, placed):
        print(f"note: {kind} is left out: {format.name} has no place for it", file=sys.stderr)
    return placed


def _lost(reply: Reply, placed: Reply) -> list[str]:
    """The kinds of parts that the format has no place for."""
    kept = {part.__class__ for part in placed.parts}
    spoken = (part.__class__ for part in reply.parts if isinstance(part, ToolCall) or part.text)
    return [kind.__name__.lower() for kind in dict.fromkeys(spoken) if kind not in kept]


COMMAND = Command(
    name="render",
    about="Read a reply as JSON on stdin, print the text of it.",
    more="Takes what `ferrule parse` prints, or a shorter form:\n"
    '  {"reasoning": ..., "text": ..., "calls": [{"name": ..., "arguments": {...}}]}\n'
    "A reply that would be read back as something else is refused.",
    examples='  echo \'{"calls": [{"name": "get_weather", "arguments": {"city": "Rome"}}]}\' |\n'
    "    ferrule render --format mistral_v3\n"
    "  ferrule parse --format hermes < reply.txt | ferrule render --format qwen_xml --convert",
    add_options=_add_options,
    run=_run,
)
