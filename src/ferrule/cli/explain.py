"""`ferrule explain`: which parts of each tool's schema the grammar enforces, which are only checked afterwards."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command, parse_format
from ferrule.cli.explanation import Explanation, explanation_of, explanation_of_passthrough
from ferrule.cli.format_facts import facts_of
from ferrule.cli.grammars import TARGETS
from ferrule.cli.tools_file import read_tools
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format

_HEADINGS = ("tool", "place", "keyword", "while decoding", "what to change")
_UP_TO_THE_ENGINE = "The engine's documentation says what it enforces. No change is needed: all is checked afterwards."


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("tools", type=read_tools, metavar="TOOLS.json", help="a JSON file of the tools")
    parser.add_argument("--target", choices=tuple(TARGETS), default="lark", help="the grammar language (default: lark)")
    parser.add_argument(
        "-f",
        "--format",
        type=parse_format,
        metavar="NAME",
        help="the wire format, which decides how arguments are encoded (default: JSON)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> None:
    explanations = [_EXPLAINERS[arguments.target](tool, arguments.format) for tool in arguments.tools]
    if arguments.json:
        streams.write(json_view.page([explanation.as_dict() for explanation in explanations]) + "\n")
        return
    rows = [row for explanation in explanations for row in _rows(explanation)]
    if sys.stdout.isatty():
        terminal.show_table(_HEADINGS, rows)
    else:
        streams.write("".join("\t".join(cell.replace("\t", " ") for cell in row) + "\n" for row in (_HEADINGS, *rows)))


def _explain_compiled(tool: ToolDefinition, format: Format | None) -> Explanation:
    """For JSON arguments the target's own schema compiler is used; other encodings are lowered."""
    return explanation_of(tool, "JSON" if format is None else facts_of(format).arguments)


def _explain_lowered(tool: ToolDefinition, _: Format | None) -> Explanation:
    return explanation_of(tool, "lowered")


def _explain_passthrough(tool: ToolDefinition, _: Format | None) -> Explanation:
    return explanation_of_passthrough(tool)


_EXPLAINERS: Mapping[str, Callable[[ToolDefinition, Format | None], Explanation]] = {
    "lark": _explain_compiled,
    "gbnf": _explain_lowered,
    "structural_tag": _explain_lowered,
    "json_schema": _explain_passthrough,
}


def _rows(explanation: Explanation) -> list[tuple[str, ...]]:
    if explanation.passed_on is not None:
        passed_on = ", ".join(explanation.passed_on) or "an empty schema"
        return [(explanation.tool, "", "", f"passed on: {passed_on}", _UP_TO_THE_ENGINE)]
    enforced = ", ".join(explanation.enforced) or "only the tool's name"
    first = (explanation.tool, "", "", f"enforced: {enforced}", "")
    later = [
        (explanation.tool, loss.path or "/", loss.keyword, f"only checked afterwards: {loss.reason}", hint)
        for loss, hint in explanation.checked_after
    ]
    return [first, *later]


COMMAND = Command(
    name="explain",
    about="Show what a grammar enforces of each tool's schema.",
    more="Keywords that a grammar cannot express are never dropped silently: they are checked when the\n"
    "call is complete. The last column says how to change the schema so that more of it is enforced.\n"
    "The target json_schema passes the schema on as it is; the engine decides what it enforces.",
    examples="  ferrule explain tools.json\n  ferrule explain tools.json --format qwen_xml\n"
    "  ferrule explain tools.json --target gbnf --json",
    add_options=_add_options,
    run=_run,
)
