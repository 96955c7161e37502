"""`ferrule formats`: lists the wire formats, or shows one in full."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import cast

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command, parse_format
from ferrule.cli.format_facts import FormatFacts, all_facts, legible
from ferrule.cli.format_view import FormatView, view_of
from ferrule.cli.formats_markdown import formats_page

_HEADINGS = ("NAME", "FAMILY", "ARGUMENTS", "REASONING", "IDS", "FOR", "MARKERS")


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", type=parse_format, metavar="NAME", help="show this format in full")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print the whole table as a Markdown page")


def _run(arguments: Namespace) -> None:
    if arguments.markdown:
        streams.write(formats_page())
    elif arguments.name is not None:
        _show_one(view_of(arguments.name), as_json=arguments.json)
    else:
        _show_all(all_facts(), as_json=arguments.json)


def _show_all(facts: list[FormatFacts], *, as_json: bool) -> None:
    if as_json:
        streams.write(json_view.page([_with_lists(asdict(fact)) for fact in facts]) + "\n")
    elif sys.stdout.isatty():
        terminal.show_formats(facts)
    else:
        streams.write(_align([_HEADINGS, *map(_row, facts)]))


def _show_one(page: FormatView, *, as_json: bool) -> None:
    if as_json:
        streams.write(json_view.page(_with_lists(page.as_dict())) + "\n")
    elif sys.stdout.isatty():
        terminal.show_sections(page.facts.name, _sections(page))
    else:
        blocks = (f"{title}:\n{_indent(body)}\n" for title, body in _sections(page))
        streams.write("\n".join((f"{page.facts.name}\n", *blocks)))


def _sections(page: FormatView) -> list[tuple[str, str]]:
    facts = page.facts
    ids = f"{facts.ids}, {'written in the text' if facts.writes_ids else 'not written in the text'}"
    sections = [
        ("for", facts.about),
        ("family", facts.family or "(another package)"),
        ("arguments", facts.arguments),
        ("reasoning markers", _yes_or_no(facts.reasoning)),
        ("ids", ids),
        ("markers in its chat template", legible(facts.markers)),
        ("special tokens", legible(page.tokens)),
        ("stops", legible(page.stops)),
        ("calls", page.example),
        (f"results (role: {page.results_role})", page.results),
        ("tool declarations", page.declaration),
    ]
    return [(title, body or "(none)") for title, body in sections]


def _row(facts: FormatFacts) -> tuple[str, ...]:
    reasoning = _yes_or_no(facts.reasoning)
    markers = legible(facts.markers) or "-"
    return (facts.name, facts.family or "-", facts.arguments, reasoning, facts.ids, facts.about, markers)


def _align(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(line.rstrip() + "\n" for line in lines)


def _indent(body: str) -> str:
    return "\n".join(f"  {line}" for line in body.split("\n"))


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _with_lists(facts: dict[str, object]) -> dict[str, object]:
    """Convert tuples to lists, for JSON."""
    return {
        key: list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value for key, value in facts.items()
    }


COMMAND = Command(
    name="formats",
    about="List the wire formats, or show one in full.",
    more="A format matches a model if the model's chat template contains all of the format's markers.",
    examples="  ferrule formats\n  ferrule formats hermes\n  ferrule formats --json",
    add_options=_add_options,
    run=_run,
)
