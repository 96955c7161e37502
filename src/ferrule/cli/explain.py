"""`ferrule explain`: what of each tool's schema holds while decoding, what is only checked after, what to change."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command, chosen_format
from ferrule.cli.explanation import Explanation, explanation_of, explanation_of_passing_on
from ferrule.cli.format_facts import facts_of
from ferrule.cli.grammars import TARGETS
from ferrule.cli.tools_file import read_tools
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format

_HEADINGS = ("tool", "place", "keyword", "while decoding", "what to change")
_UP_TO_THE_ENGINE = "Ask the engine's own documents what it enforces. Nothing need change: all of it is checked after."


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
    explained = [_EXPLAINED_FOR[arguments.target](tool, arguments.format) for tool in arguments.tools]
    if arguments.json:
        streams.write(json_view.page([one.as_dict() for one in explained]) + "\n")
        return
    rows = [row for one in explained for row in _rows(one)]
    if sys.stdout.isatty():
        terminal.show_table(_HEADINGS, rows)
    else:
        streams.write("".join("\t".join(cell.replace("\t", " ") for cell in row) + "\n" for row in (_HEADINGS, *rows)))


def _compiled(tool: ToolDefinition, format: Format | None) -> Explanation:
    """JSON goes to the target's own compiler of schemas, other encodings do not."""
    return explanation_of(tool, "JSON" if format is None else facts_of(format).arguments)


def _lowered(tool: ToolDefinition, _: Format | None) -> Explanation:
    return explanation_of(tool, "lowered")


def _passed_on(tool: ToolDefinition, _: Format | None) -> Explanation:
    return explanation_of_passing_on(tool)


_EXPLAINED_FOR: Mapping[str, Callable[[ToolDefinition, Format | None], Explanation]] = {
    "lark": _compiled,
    "gbnf": _lowered,
    "structural_tag": _lowered,
    "json_schema": _passed_on,
}


def _rows(explained: Explanation) -> list[tuple[str, ...]]:
    if explained.passed_on is not None:
        passed_on = ", ".join(explained.passed_on) or "a schema that asks for nothing"
        return [(explained.tool, "", "", f"passed on: {passed_on}", _UP_TO_THE_ENGINE)]
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
    "there. The last column says how to write the schema so that more of it is enforced.\n"
    "The target json_schema is the schema as it is: what of it holds is up to the engine.",
    examples="  ferrule explain tools.json\n  ferrule explain tools.json --format qwen_xml\n"
    "  ferrule explain tools.json --target gbnf --json",
    add_options=_add_options,
    run=_run,
)
