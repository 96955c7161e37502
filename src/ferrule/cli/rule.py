"""`ferrule rule`: prints a rule as a grammar for an engine."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ferrule.cli import streams
from ferrule.cli.command import Command
from ferrule.cli.grammars import TARGETS, add_rule_options


def _add_options(parser: ArgumentParser) -> None:
    add_rule_options(parser)
    parser.add_argument("--target", choices=tuple(TARGETS), default="lark", help="the grammar language (default: lark)")


def _run(arguments: Namespace) -> None:
    grammar = TARGETS[arguments.target](arguments)
    streams.write(grammar if grammar.endswith("\n") else grammar + "\n")


COMMAND = Command(
    name="rule",
    about="Print the grammar that constrains a model's output.",
    more="It is built from a wire format, the tools and the tool choice.\n"
    "lark is for llguidance, gbnf for llama.cpp, structural_tag for xgrammar; json_schema is\n"
    "for an engine that takes only a schema.",
    examples="  ferrule rule --format hermes --tools tools.json --choice required\n"
    "  ferrule rule --format qwen_xml --tools tools.json --choice get_weather --target gbnf",
    add_options=_add_options,
    run=_run,
)
