"""`ferrule explain`: which parts of each tool's schema the grammar enforces, which are only checked afterwards."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command, parse_format
from ferrule.cli.format_facts import facts_of
from ferrule.cli.grammars import TARGETS
from ferrule.cli.tools_file import read_tools
from ferrule.core.tool import ToolDefinition
from ferrule.rules.relaxation import Loss, losses_of
from ferrule.schema.keywords import SUBSCHEMA_KEYWORDS, children
from ferrule.schema.pointer import escape, pointer_to
from ferrule.schema.target_limits import CONSTRAINT_KEYWORDS, hint_for
from ferrule.wire.format import Format

# Explanation: for one tool, the schema keywords that the grammar enforces, and the places where it does not.
#
# If the engine receives the schema itself, only the engine knows what it enforces. The keywords are then listed as
# passed on.


@dataclass(frozen=True, slots=True)
class Explanation:
    """`enforced` and `passed_on` are keywords; `checked_after` are places in the schema, each with a hint.

    If `passed_on` is not None, the engine receives the schema itself, and nothing else is claimed.
    """

    tool: str
    enforced: tuple[str, ...] = ()
    checked_after: tuple[tuple[Loss, str], ...] = ()
    passed_on: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, object]:
        after = [
            {"path": loss.path, "keyword": loss.keyword, "how": loss.reason, "hint": hint}
            for loss, hint in self.checked_after
        ]
        named = {"enforced": list(self.enforced), "passed_on": list(self.passed_on or ())}
        return {"tool": self.tool, **named, "checked_after": after}


def explanation_of(tool: ToolDefinition, encoding: str) -> Explanation:
    """Explain a target for which Ferrule emits a grammar, with the arguments written in `encoding`."""
    losses = losses_of(tool, encoding)
    enforced = _keywords_of(tool, {loss.path for loss in losses})
    return Explanation(tool.name, enforced, tuple((loss, hint_for(loss.keyword)) for loss in losses))


def explanation_of_passthrough(tool: ToolDefinition) -> Explanation:
    """Explain a target that receives the schema as it is."""
    return Explanation(tool.name, passed_on=_keywords_of(tool, set()))


def _keywords_of(tool: ToolDefinition, lost: set[str]) -> tuple[str, ...]:
    used: dict[str, None] = {}
    _collect(tool.parameters, "", lost, used)
    return tuple(used)


def _collect(schema: object, path: str, lost: set[str], used: dict[str, None]) -> None:
    """Collect the keywords of a schema, except where they are lost."""
    if not isinstance(schema, dict):
        return
    node = cast("dict[str, Any]", schema)
    used.update(
        dict.fromkeys(key for key in node if key in CONSTRAINT_KEYWORDS and f"{path}/{escape(key)}" not in lost)
    )
    for child in children(node):
        keyword = str(child.tokens[0])
        if f"{path}/{keyword}" not in lost and (
            SUBSCHEMA_KEYWORDS[keyword].applies_to != "nothing" or keyword == "$defs"
        ):
            _collect(child.schema, path + pointer_to(child.tokens), lost, used)


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
