"""`ferrule stats`: which tools models call, and whether a new tool description changed that."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, on_ledger
from ferrule.cli.stats_tables import (
    LEGEND,
    MISNAMED,
    USE,
    VERSIONS,
    unknown_name_rows,
    use_rows,
    version_rows,
    wordings,
)
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.usage_figures import UsageQuery, UsageReport


def _add_options(parser: ArgumentParser) -> None:
    add_ledger_option(parser)
    parser.add_argument(
        "--tool", default="", metavar="NAME", help="only this tool, with the description of each version"
    )
    parser.add_argument(
        "--since", default=0.0, type=_moment, metavar="ISO", help="only requests since then: 2026-05-01, in UTC"
    )
    parser.add_argument("--tenant", metavar="NAME", help="only requests of this tenant")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _moment(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as refusal:
        raise ArgumentTypeError(f"{text!r} is not a date; write 2026-05-01 or 2026-05-01T12:00") from refusal
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _run(arguments: Namespace) -> None:
    search = UsageQuery(tenant=arguments.tenant, since=arguments.since, tool=arguments.tool)

    async def read(ledger: Ledger) -> UsageReport:
        return await ledger.usage_report(search)

    report = on_ledger(arguments.ledger, read)
    if arguments.json:
        lines = [line.as_dict() for line in report.rows]
        document = {"lines": lines, "misnamed": [entry.as_dict() for entry in report.unknown_names]}
        streams.write(json_view.page(document) + "\n")
    elif report.rows:
        _show(report, is_of_one_tool=bool(arguments.tool))
    else:
        streams.write("no tools have been offered to a model\n")


def _show(report: UsageReport, *, is_of_one_tool: bool) -> None:
    tables = (
        (USE, use_rows(report.rows)),
        (VERSIONS, version_rows(report.rows)),
        (MISNAMED, unknown_name_rows(report.unknown_names)),
    )
    for headings, rows in tables:
        if rows:
            terminal.show_table(headings, rows)
            streams.write("\n")
    if is_of_one_tool:
        terminal.show_sections(report.rows[0].tool, wordings(report.rows))
        streams.write("\n")
    terminal.show_lines(LEGEND)


COMMAND = Command(
    name="stats",
    about="Show tool usage: which tools models call, and how well.",
    more="Figures from a ledger, by model and tool, the most used first; then by version of each tool's\n"
    "definition, to show whether a new description helped.",
    examples="  ferrule stats --ledger ledger.db\n"
    "  ferrule stats --ledger ledger.db --tool search_corpus --since 2026-05-01\n"
    "  ferrule stats --ledger ledger.db --json",
    add_options=_add_options,
    run=_run,
)
