"""The grammar targets, and the options that select a rule. Shared by `rule` and `accepts`."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from ferrule.cli import json_view
from ferrule.cli.command import add_format_option
from ferrule.cli.tools_file import read_tools
from ferrule.core.json_text import loads
from ferrule.core.request import ChoiceMode, ToolChoice
from ferrule.errors import DefinitionError
from ferrule.rules.rule import Rule
from ferrule.schema.admission import admit
from ferrule.wire.rule_builder import ReasoningMode, bind

Printer = Callable[[Namespace], str]


def add_rule_options(parser: ArgumentParser) -> None:
    add_format_option(parser)
    parser.add_argument(
        "-t", "--tools", required=True, type=read_tools, metavar="FILE", help="a JSON file of the tools"
    )
    parser.add_argument(
        "-c",
        "--choice",
        default=ToolChoice.auto(),
        type=parse_choice,
        metavar="CHOICE",
        help="auto (default), none, required, or the name of a tool that must be called (several: a,b)",
    )
    parser.add_argument(
        "--parallel", action=BooleanOptionalAction, default=True, help="whether several calls are allowed"
    )
    parser.add_argument(
        "--reasoning",
        choices=tuple(mode.value for mode in ReasoningMode),
        default=ReasoningMode.ON.value,
        help="prefilled means that the prompt has already opened the reasoning (default: on)",
    )
    parser.add_argument(
        "--response-schema", type=_schema, metavar="FILE", help="a JSON Schema that an answer without calls must match"
    )


def parse_choice(text: str) -> ToolChoice:
    """Parse a tool choice: a mode, or the names of the tools of which one must be called."""
    if text in tuple(ChoiceMode):
        return ToolChoice(ChoiceMode(text))
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ArgumentTypeError(f"a name is missing in {text!r}")
    return ToolChoice.allowed(names, ChoiceMode.REQUIRED)


def rule_from_options(arguments: Namespace) -> Rule:
    """Build the rule from the options."""
    return bind(
        arguments.format,
        arguments.tools,
        arguments.choice,
        parallel=arguments.parallel,
        reasoning=ReasoningMode(arguments.reasoning),
        response_schema=arguments.response_schema,
    )


def _schema(path: str) -> dict[str, object]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as refusal:
        raise ArgumentTypeError(f"cannot read {path!r}: {refusal.strerror}") from refusal
    try:
        return admit(loads(text))
    except (ValueError, RecursionError) as refusal:
        raise DefinitionError(f"{path}: not JSON ({refusal})", hint="Write one JSON Schema.") from refusal


def _lark(arguments: Namespace) -> str:
    from ferrule.rules.lark import emit_lark

    return emit_lark(rule_from_options(arguments))


def _gbnf(arguments: Namespace) -> str:
    from ferrule.rules.gbnf import emit_gbnf

    return emit_gbnf(rule_from_options(arguments)).text


def _structural_tag(arguments: Namespace) -> str:
    from ferrule.rules.structural_tag import emit_structural_tag

    return json_view.page(emit_structural_tag(rule_from_options(arguments)))


def _json_schema(arguments: Namespace) -> str:
    from ferrule.rules.json_schema import emit_json_schema

    return json_view.page(cast("object", emit_json_schema(arguments.tools, arguments.choice, arguments.parallel)))


TARGETS: Mapping[str, Printer] = {
    "lark": _lark,
    "gbnf": _gbnf,
    "structural_tag": _structural_tag,
    "json_schema": _json_schema,
}
