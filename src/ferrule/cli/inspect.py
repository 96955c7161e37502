"""`ferrule inspect`: detects a model's format and tests its chat template for faults."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from textwrap import indent

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command, parse_format
from ferrule.cli.grammars import TARGETS
from ferrule.cli.inspection import Inspection, inspection_of
from ferrule.engines.checkpoint.checkpoint import read_checkpoint
from ferrule.wire.detection import DetectionMethod


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="a .gguf file, a folder with tokenizer_config.json, or a .jinja file"
    )
    parser.add_argument(
        "-f", "--format", type=parse_format, metavar="NAME", help="use this format instead of detecting it"
    )
    parser.add_argument("--rule", action="store_true", help="also print the grammar for a call of one of two tools")
    parser.add_argument(
        "--target", choices=tuple(TARGETS), default="lark", help="the grammar language of --rule (default: lark)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> None:
    target = arguments.target if arguments.rule else ""
    inspection = inspection_of(read_checkpoint(arguments.model), arguments.format, target)
    title = terminal.printable(inspection.name)
    if arguments.json:
        streams.write(json_view.page(inspection.as_dict()) + "\n")
    elif sys.stdout.isatty():
        terminal.show_sections(title, _sections(inspection))
    else:
        blocks = (f"{heading}:\n{indent(body, '  ')}\n" for heading, body in _sections(inspection))
        streams.write("\n".join((f"{title}\n", *blocks)))


_AROUND = "(Ferrule writes tools, calls and results as plain messages for this model, so these faults have no effect.)"


def _sections(inspection: Inspection) -> list[tuple[str, str]]:
    messages = [f"{fault.kind.value}: {fault.message}" for fault in inspection.faults]
    faults = "\n".join([*messages, _AROUND] if messages and inspection.how == DetectionMethod.NO_TOOLS else messages)
    sections = [
        ("architecture", inspection.architecture),
        ("family", inspection.family),
        ("format", f"{inspection.format}: {inspection.about}"),
        ("detected by", inspection.evidence),
        ("faults of the chat template", faults or "none found"),
        ("a call and its result, as the model reads them", inspection.example),
        ("rule for two tools", inspection.rule),
    ]
    return [(heading, body) for heading, body in sections if body]


COMMAND = Command(
    name="inspect",
    about="Show a model's format and the faults of its chat template.",
    more="The format is detected from the model's chat template. The template is then rendered with a\n"
    "sample conversation: a fault is any content that does not appear in the output unchanged.",
    examples="  ferrule inspect model.gguf\n  ferrule inspect path/to/checkpoint --json\n"
    "  ferrule inspect chat_template.jinja --rule --target gbnf",
    add_options=_add_options,
    run=_run,
)
