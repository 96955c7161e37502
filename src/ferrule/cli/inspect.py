"""`ferrule inspect`: which format a model speaks, how that was found, and what its chat template damages."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from textwrap import indent

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command, chosen_format
from ferrule.cli.grammars import TARGETS
from ferrule.cli.inspection import Inspection, inspection_of
from ferrule.engines.checkpoint.checkpoint import read_checkpoint
from ferrule.wire.detection import How


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="a .gguf file, a folder with tokenizer_config.json, or a .jinja file"
    )
    parser.add_argument(
        "-f", "--format", type=chosen_format, metavar="NAME", help="take this format instead of looking for one"
    )
    parser.add_argument("--rule", action="store_true", help="print also the grammar of a call to one of two tools")
    parser.add_argument("--target", choices=tuple(TARGETS), default="lark", help="of --rule (default: lark)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> None:
    target = arguments.target if arguments.rule else ""
    inspected = inspection_of(read_checkpoint(arguments.model), arguments.format, target)
    title = terminal.seen(inspected.name)
    if arguments.json:
        streams.write(json_view.page(inspected.as_dict()) + "\n")
    elif sys.stdout.isatty():
        terminal.show_sections(title, _sections(inspected))
    else:
        blocks = (f"{heading}:\n{indent(body, '  ')}\n" for heading, body in _sections(inspected))
        streams.write("\n".join((f"{title}\n", *blocks)))


_AROUND = "(Tools, calls and results are written as plain messages for it, so that none of this matters.)"


def _sections(inspected: Inspection) -> list[tuple[str, str]]:
    told = [f"{fault.kind.value}: {fault.told}" for fault in inspected.faults]
    faults = "\n".join([*told, _AROUND] if told and inspected.how == How.NO_TOOLS else told)
    sections = [
        ("architecture", inspected.architecture),
        ("family", inspected.family),
        ("format", f"{inspected.format}: {inspected.about}"),
        ("how it was found", inspected.found),
        ("faults of the chat template", faults or "none found"),
        ("a call and its result, as the model reads them", inspected.example),
        ("rule for two tools", inspected.rule),
    ]
    return [(heading, body) for heading, body in sections if body]


COMMAND = Command(
    name="inspect",
    about="Show a model's format and the faults of its template.",
    more="The format is found from the chat template that the model carries. The template is tried\n"
    "with a made-up conversation: a fault is something that does not come back as it was put in.",
    examples="  ferrule inspect model.gguf\n  ferrule inspect path/to/checkpoint --json\n"
    "  ferrule inspect chat_template.jinja --rule --target gbnf",
    add_options=_add_options,
    run=_run,
)
