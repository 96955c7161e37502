"""`ferrule stats`: which tools models call, and whether a new tool description changed that."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, on_ledger
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.tool_usage import SHORT_HASH, UnknownToolName, UsageCounts, UsageQuery, UsageReport, UsageRow

Rows = list[tuple[str, ...]]
WIDTH = 8
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NO_TOOL = "(no similar tool)"
# In one column: most of them are zero for most tools, and a terminal is narrow.
_OTHER_COUNTS = ("wrong", "cut_off", "failed", "denied", "retried", "repeated", "missed")
USE = ("model", "tool", "picked", "offered", "other")
VERSIONS = ("tool", "definition", "first seen", "last seen", "offered", "picked", "wrong")
MISNAMED = ("unknown name", "nearest tool", "model", "times")
LEGEND = (
    "picked: returned calls. offered: replies that could have called it.",
    "wrong: the arguments were invalid, and were repaired or the call was rejected.",
    "cut off: the token limit ended the call. failed: its result was an error.",
    "denied: the approval was refused. retried: called again after its own error.",
    "repeated: the same call as before. missed: an unknown but similar name was",
    "called, or a call of it was required and none was made.",
)


def use_rows(lines: Iterable[UsageRow]) -> Rows:
    """One row for each model and tool, over all its definitions, the most used first."""
    sums: dict[tuple[str, str], UsageCounts] = {}
    for line in lines:
        key = (line.model, line.tool)
        sums[key] = sums.get(key, UsageCounts()) + line.counts
    most = max((tally.picked for tally in sums.values()), default=0)
    ordered = sorted(sums.items(), key=lambda entry: (-entry[1].picked, -entry[1].offered, entry[0]))
    return [
        (model, tool or _NO_TOOL, f"{bar(tally.picked, most)} {tally.picked}", str(tally.offered), _other_counts(tally))
        for (model, tool), tally in ordered
    ]


def version_rows(lines: Iterable[UsageRow]) -> Rows:
    """One row for each definition of each tool, over all models, the oldest of a tool first."""
    by_tool: dict[str, dict[str, list[UsageRow]]] = {}
    for line in lines:
        if line.tool:
            by_tool.setdefault(line.tool, {}).setdefault(line.fingerprint, []).append(line)
    return [
        _version(tool, fingerprint, same)
        for tool, versions in by_tool.items()
        for fingerprint, same in sorted(versions.items(), key=lambda versions_of_tool: _first(versions_of_tool[1]))
    ]


def unknown_name_rows(names: Iterable[UnknownToolName]) -> Rows:
    return [(entry.wrote, entry.tool or _NO_TOOL, entry.model, str(entry.count)) for entry in names]


def wordings(lines: Iterable[UsageRow]) -> list[tuple[str, str]]:
    """The description in each definition of a tool, the oldest first."""
    ordered = sorted((line for line in lines if line.tool), key=lambda line: line.first_at or 0.0)
    return list({line.fingerprint[:SHORT_HASH]: line.description or "(none)" for line in ordered}.items())


def bar(count: int, most: int) -> str:
    """A bar in proportion to the maximum. A count above zero is always visible."""
    eighths = max(round(count / most * WIDTH * 8), 1) if count and most else 0
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn.ljust(WIDTH)


def _other_counts(tally: UsageCounts) -> str:
    return ", ".join(
        f"{getattr(tally, name)} {name.replace('_', ' ')}" for name in _OTHER_COUNTS if getattr(tally, name)
    )


def _version(tool: str, fingerprint: str, same: Sequence[UsageRow]) -> tuple[str, ...]:
    tally = sum((line.counts for line in same), UsageCounts())
    share = tally.wrong_share
    counts = (
        str(tally.offered),
        str(tally.picked),
        "" if share is None else f"{bar(round(share * 64), 64)} {share:.0%}",
    )
    return tool, fingerprint[:SHORT_HASH], _day(_first(same)), _day(max(line.last_at or 0.0 for line in same)), *counts


def _first(same: Iterable[UsageRow]) -> float:
    return min(line.first_at or 0.0 for line in same)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


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
