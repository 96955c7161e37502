"""`ferrule render`: renders a reply as the raw text that a model of the format would write."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace

from ferrule.cli import streams
from ferrule.cli.command import Command, add_format_option, add_tools_option
from ferrule.cli.reply_json import ReplyDocument, reply_from_json
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.wire.format import Format
from ferrule.wire.renderer import arrange_parts, render


def _add_options(parser: ArgumentParser) -> None:
    add_format_option(parser)
    add_tools_option(parser)
    parser.add_argument(
        "--convert",
        action="store_true",
        help="the reply comes from another format: reorder its parts for this one and generate new ids",
    )


def _run(arguments: Namespace) -> None:
    document = reply_from_json("".join(streams.pieces(None)))
    arrange = _convert if arguments.convert else _keep_order
    streams.write(render(arguments.format, arrange(arguments.format, document), arguments.tools))


def _keep_order(format: Format, document: ReplyDocument) -> Reply:
    """Keep the order of the document. Parts without an order get the format's, unless that would drop some: the
    renderer then raises an error that says which.
    """
    placed = arrange_parts(format, document.reply)
    return document.reply if document.is_ordered or _dropped_kinds(document.reply, placed) else placed


def _convert(format: Format, document: ReplyDocument) -> Reply:
    parts = tuple(replace(part, id="") if isinstance(part, ToolCall) else part for part in document.reply.parts)
    placed = arrange_parts(format, Reply(parts))
    for kind in _dropped_kinds(document.reply, placed):
        print(f"note: {kind} is dropped: {format.name} does not support it", file=sys.stderr)
    return placed


def _dropped_kinds(reply: Reply, placed: Reply) -> list[str]:
    """The kinds of parts that the format does not support."""
    placed_kinds = {part.__class__ for part in placed.parts}
    kinds = (part.__class__ for part in reply.parts if isinstance(part, ToolCall) or part.text)
    return [kind.__name__.lower() for kind in dict.fromkeys(kinds) if kind not in placed_kinds]


COMMAND = Command(
    name="render",
    about="Render a reply, given as JSON on stdin, in a wire format.",
    more="Reads the output of `ferrule parse`, or a shorter form:\n"
    '  {"reasoning": ..., "text": ..., "calls": [{"name": ..., "arguments": {...}}]}\n'
    "A reply that would not parse back to itself is refused.",
    examples='  echo \'{"calls": [{"name": "get_weather", "arguments": {"city": "Rome"}}]}\' |\n'
    "    ferrule render --format mistral_v3\n"
    "  ferrule parse --format hermes < reply.txt | ferrule render --format qwen_xml --convert",
    add_options=_add_options,
    run=_run,
)
