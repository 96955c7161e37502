"""`ferrule explain`: what of each tool's schema holds while decoding, what is only checked after, what to change."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from ferrule.cli import json_page, streams, terminal
from ferrule.cli.command import Command, chosen_format
from ferrule.cli.explanation import Explanation, explanation_of
from ferrule.cli.format_facts import facts_of
from ferrule.cli.grammars import TARGETS
from ferrule.cli.tools_file import read_tools
from ferrule.wire.format import Format

_HEADINGS = ("tool", "place", "keyword", "while decoding", "what to change")


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("tools", type=read_tools, metavar="TOOLS.json", help="a JSON file of the tools on offer")
    parser.add_argument("--target", choices=tuple(TARGETS), default="lark", help="the grammar language (default: lark)")
    parser.add_argument(
        "-f",
        "--format",
        type=chosen_format,
        metavar="NAME",
        help="the wire format, which decides how arguments are written (default: one that writes JSON)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> None:
    encoding = _encoding(arguments.format, arguments.target)
    explained = [explanation_of(tool, encoding) for tool in arguments.tools]
    if arguments.json:
        streams.write(json_page.page([one.as_dict() for one in explained]) + "\n")
        return
    rows = [row for one in explained for row in _rows(one)]
    if sys.stdout.isatty():
        terminal.show_table(_HEADINGS, rows)
    else:
        streams.write("".join("\t".join(cell.replace("\t", " ") for cell in row) + "\n" for row in (_HEADINGS, *rows)))


def _encoding(format: Format | None, target: str) -> str:
    """How arguments are written; JSON goes to a compiler of schemas only where the target has one."""
    written = "JSON" if format is None else facts_of(format).arguments
    return written if target == "lark" else f"{written}, lowered"


def _rows(explained: Explanation) -> list[tuple[str, ...]]:
    enforced = ", ".join(explained.enforced) or "nothing but the tool's name"
    first = (explained.tool, "", "", f"enforced: {enforced}", "")
    later = [
        (explained.tool, loss.path or "/", loss.keyword, f"only checked after: {loss.how}", hint)
        for loss, hint in explained.checked_after
    ]
    return [first, *later]


COMMAND = Command(
    name="explain",
    about="Show what a grammar enforces of each tool's schema.",
    more="What a grammar cannot say is never dropped in silence: it is checked when the call is\n"
    "there. The last column says how to write the schema so that more of it is enforced.",
    examples="  ferrule explain tools.json\n  ferrule explain tools.json --format qwen_xml\n"
    "  ferrule explain tools.json --target gbnf --json",
    add_options=_add_options,
    run=_run,
)
