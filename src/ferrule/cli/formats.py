"""`ferrule formats`: lists the wire formats, or shows one in full."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass, replace
from typing import cast

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command, parse_format
from ferrule.cli.format_facts import FormatFacts, all_facts, facts_of, legible
from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.ids import IdPolicy
from ferrule.core.json_schema import JsonSchema
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import PARIS, ROME, Format
from ferrule.wire.prompt import declaration
from ferrule.wire.registry import examples
from ferrule.wire.renderer import render, render_results

_WEATHER = (
    ToolDefinition.build(PARIS.name)
    .description("The weather of the coming days.")
    .parameter("city", JsonSchema.string(), required=True)
    .parameter("days", JsonSchema.integer())
    .done()
)
_CONTENTS = ({"celsius": 21}, {"celsius": 27})
_EXAMPLE_IDS = ("call_{}", "call0000{}", "call00000{}")


@dataclass(frozen=True, slots=True)
class FormatView:
    facts: FormatFacts
    tokens: tuple[str, ...]
    stops: tuple[str, ...]
    example: str
    results: str
    results_role: str
    declaration: str

    def as_dict(self) -> dict[str, object]:
        fields = asdict(self)
        return {**fields.pop("facts"), **fields}


def view_of(format: Format) -> FormatView:
    text, calls = _example(format)
    contents = zip(calls, _CONTENTS, strict=False)
    results = [ToolResult(call.id, call.name, content) for call, content in contents]
    return FormatView(
        facts=facts_of(format),
        tokens=format.tokens,
        stops=format.stops,
        example=text,
        results=render_results(format, results),
        results_role=format.result.role,
        declaration=declaration(format, (_WEATHER,)),
    )


def _example(format: Format) -> tuple[str, list[ToolCall]]:
    """A text with two calls (or as many as the format allows in one turn), and the calls in it."""
    for example in examples():
        if example.format == format.name and example.is_canonical and len(example.reply.calls) > 1:
            return example.text, _with_ids(format.ids, example.reply.calls)
    calls = _with_ids(format.ids, (PARIS, ROME)[: format.calls.max_calls])
    return render(format, Reply(tuple(calls)), (_WEATHER,)), calls


def _with_ids(policy: IdPolicy, calls: tuple[ToolCall, ...]) -> list[ToolCall]:
    return [call if call.id else replace(call, id=_id(policy, call.name, at)) for at, call in enumerate(calls)]


def _id(policy: IdPolicy, name: str, at: int) -> str:
    """An id in the format's form. It is deterministic, so that two outputs can be compared."""
    new_id = policy.make(name, at)
    if new_id == policy.make(name, at):
        return new_id
    return next((id for form in _EXAMPLE_IDS if policy.fits(id := form.format(at + 1), name)), new_id)


_HEAD = """---
hide:
  - toc
---

# Formats

Generated from the definitions in `src/ferrule/wire/formats` by `ferrule formats --markdown`. A test keeps it up to
date.

| format | family | for | arguments | reasoning | ids |
| --- | --- | --- | --- | --- | --- |
"""


def formats_page() -> str:
    return _HEAD + "".join(map(_markdown_row, all_facts()))


def _markdown_row(fact: FormatFacts) -> str:
    ids = f"{fact.ids}, in the text" if fact.writes_ids else ""
    cells = (f"`{fact.name}`", fact.family or "", fact.about, fact.arguments, "yes" if fact.reasoning else "", ids)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |\n"


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
