"""`ferrule parse`: parses a model's raw output into a reply."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command, add_format_option, add_tools_option
from ferrule.cli.reply_json import event_as_dict, reply_as_dict
from ferrule.core.event import Event
from ferrule.core.reply import fold
from ferrule.wire.parser import Parser


def _add_options(parser: ArgumentParser) -> None:
    add_format_option(parser)
    add_tools_option(parser)
    parser.add_argument(
        "--chunk", type=_positive, metavar="N", help="feed N characters at a time (default: everything at once)"
    )
    parser.add_argument(
        "--events", action="store_true", help="print each event as one line of JSON as soon as it is known"
    )
    parser.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="the beginning of the reply that is part of the prompt, such as <think>",
    )


def _run(arguments: Namespace) -> None:
    parser = Parser(arguments.format, arguments.tools, prefix=arguments.prefix)
    events = _events(parser, arguments.chunk)
    if arguments.events:
        for event in events:
            streams.write(json_view.line(event_as_dict(event)) + "\n")
        return
    reply = fold(events)
    if sys.stdout.isatty():
        terminal.show_reply(reply)
    else:
        streams.write(json_view.page(reply_as_dict(reply)) + "\n")


def _events(parser: Parser, size: int | None) -> Iterator[Event]:
    for piece in streams.pieces(size):
        yield from parser.feed(piece)
    yield from parser.close()


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


COMMAND = Command(
    name="parse",
    about="Parse a model's raw output from stdin.",
    more="Prints text, reasoning and calls in their order: as JSON or, on a terminal, formatted for\n"
    "reading. Mistakes of the model are reported as diagnostics and are not an error.\n"
    "A truncated call is marked as not complete: never run it.",
    examples="  ferrule parse --format hermes --tools tools.json < reply.txt\n"
    "  ferrule parse --format qwen_xml,hermes --chunk 1 --events < reply.txt",
    add_options=_add_options,
    run=_run,
)
