"""`ferrule stats`: which tools models pick, and whether another wording of a description changed that."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, on_ledger
from ferrule.cli.stats_tables import LEGEND, MISNAMED, USE, VERSIONS, misnamed_rows, use_rows, version_rows, wordings
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.usage_figures import SelectionFigures, SelectionSearch


def _add_options(parser: ArgumentParser) -> None:
    add_ledger_option(parser)
    parser.add_argument("--tool", default="", metavar="NAME", help="only this tool, with the wording of each version")
    parser.add_argument(
        "--since", default=0.0, type=_moment, metavar="ISO", help="only what was asked from then on: 2026-05-01, in UTC"
    )
    parser.add_argument("--tenant", metavar="NAME", help="only what was asked by this tenant")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _moment(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as refusal:
        raise ArgumentTypeError(f"{text!r} is no moment; write 2026-05-01 or 2026-05-01T12:00") from refusal
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _run(arguments: Namespace) -> None:
    search = SelectionSearch(tenant=arguments.tenant, since=arguments.since, tool=arguments.tool)

    async def read(ledger: Ledger) -> SelectionFigures:
        return await ledger.selections(search)

    found = on_ledger(arguments.ledger, read)
    if arguments.json:
        lines = [line.as_dict() for line in found.lines]
        told = {"lines": lines, "misnamed": [one.as_dict() for one in found.misnamed]}
        streams.write(json_view.page(told) + "\n")
    elif found.lines:
        _show(found, is_of_one_tool=bool(arguments.tool))
    else:
        streams.write("no model was offered a tool\n")


def _show(found: SelectionFigures, *, is_of_one_tool: bool) -> None:
    tables = (
        (USE, use_rows(found.lines)),
        (VERSIONS, version_rows(found.lines)),
        (MISNAMED, misnamed_rows(found.misnamed)),
    )
    for headings, rows in tables:
        if rows:
            terminal.show_table(headings, rows)
            streams.write("\n")
    if is_of_one_tool:
        terminal.show_sections(found.lines[0].tool, wordings(found.lines))
        streams.write("\n")
    terminal.show_lines(LEGEND)


COMMAND = Command(
    name="stats",
    about="Print which tools models pick, and how well.",
    more="Figures of a ledger, by model and tool, the most used first; then by version of each tool's\n"
    "definition, so that one sees whether a new wording of its description helped.",
    examples="  ferrule stats --ledger ledger.db\n"
    "  ferrule stats --ledger ledger.db --tool search_corpus --since 2026-05-01\n"
    "  ferrule stats --ledger ledger.db --json",
    add_options=_add_options,
    run=_run,
)
