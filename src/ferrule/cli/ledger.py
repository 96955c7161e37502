"""`ferrule ledger`: prunes, deletes from, exports, checks and migrates a ledger.

Results are printed on stdout, progress on stderr.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

from ferrule.cli import streams
from ferrule.cli.command import Command
from ferrule.cli.doctor_ledger import FAILED, OK, WARNING, LedgerFinding, read_ledger_version
from ferrule.cli.terminal import printable
from ferrule.core.context import Principal
from ferrule.errors import DefinitionError, LedgerError
from ferrule.run.ledger.address import migrate_ledger, open_ledger
from ferrule.run.ledger.prune_report import PruneReport
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.tables import VERSION

T = TypeVar("T")
_DAY = 86_400.0
_PROGRESS_SECONDS = 1.0
_SHOWN_IDS = 20
# What each reason means, and what to do about it.
_REASONS = {
    "held": "a process owns it now",
    "waiting": "an approval, a response, a continuation or a webhook waits in it",
    "unknown": "a call with side effects has no known outcome; it goes with --audit-older-than",
    "damaged": "its last audit row is gone; see `ferrule ledger check`",
}


class _Progress:
    """Prints a line on stderr, at most once a second."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def show(self, text: str) -> None:
        if time.monotonic() - self._last >= _PROGRESS_SECONDS:
            self._last = time.monotonic()
            self.note(text)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def add(name: str, act: Callable[[Namespace], None], about: str, more: str) -> ArgumentParser:
        action = actions.add_parser(
            name, help=about, description=f"{about}\n\n{more}", formatter_class=RawDescriptionHelpFormatter
        )
        action.add_argument(
            "--ledger",
            required=True,
            metavar="PATH_OR_DSN",
            help="a SQLite file, or postgresql://user@host/database; of several databases, one at a time",
        )
        action.set_defaults(act=act)
        return action

    prune = add(
        "prune",
        _prune,
        "remove old conversations",
        "Removes conversations that were not changed for DAYS: messages, calls, approvals, responses and\n"
        "traces. Kept are those that a process owns, in which something waits, or in which a call with side\n"
        "effects has no known outcome. The audit log of a removed conversation stays whole, and its id cannot\n"
        "be used again, until --audit-older-than removes both. In Postgres, weeks in which nothing is left are\n"
        "dropped; a SQLite file keeps its size until you run VACUUM, and reuses the space before.",
    )
    prune.add_argument("--older-than", required=True, type=_days, metavar="DAYS", help="not changed for so many days")
    prune.add_argument(
        "--audit-older-than",
        type=_days,
        metavar="DAYS",
        help="also remove audit logs that ended so many days ago (default: none)",
    )
    prune.add_argument(
        "--whole-weeks",
        action="store_true",
        help="Postgres: wait until all conversations of a week are due. It is cheaper, and up to six days later",
    )
    prune.add_argument("--dry-run", action="store_true", help="only count what would be removed")

    delete = add(
        "delete",
        _delete,
        "remove everything of one person",
        "Removes all conversations and traces of a principal, whatever their age, also if something waits in\n"
        "them. Audit logs stay whole; they name everything by its hash, and the principal is not named in what\n"
        "is left. A conversation that a process owns now is reported and not removed: run it again later.",
    )
    delete.add_argument("--principal", required=True, metavar="NAME", help="the name of a key, or of a user")
    delete.add_argument("--tenant", default="local", metavar="NAME", help="the tenant (default: %(default)s)")
    delete.add_argument("--by", default="operator", metavar="NAME", help="who asked for it, for the audit log")
    delete.add_argument("--yes", action="store_true", help="do it; without this, only what would be removed is counted")

    export = add(
        "export",
        _export,
        "print conversations as JSON, one a line",
        "Prints everything of each conversation: messages, calls, approvals, responses and the audit log. Of\n"
        "removed ones, which have no tenant, only the audit log. One conversation is in memory at a time.",
    )
    export.add_argument("--tenant", default="", metavar="NAME", help="only of this tenant")
    export.add_argument("--principal", default="", metavar="NAME", help="only of this principal")
    export.add_argument("--since", type=_date, default=0.0, metavar="DATE", help="changed since then: 2026-01-31, UTC")

    add(
        "check",
        _check,
        "verify all audit logs and the tables",
        "Verifies every audit log, and looks for rows without a conversation, for missing partitions and for an\n"
        "earlier version. It changes no row; partitions that are missing are made when a ledger is opened. The\n"
        "exit code is 1 if something is wrong.",
    )
    add(
        "migrate",
        _migrate,
        "raise a ledger to this version",
        "A ledger of an earlier version is raised when it is opened. For a large one, run this first: in\n"
        "Postgres, processes of the earlier version may write meanwhile. Make a backup before. It can be\n"
        "interrupted, and repeated.",
    )


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _prune(arguments: Namespace) -> None:
    days, audit_days = arguments.older_than, arguments.audit_older_than
    if audit_days is not None and (audit_days < days or audit_days < 1):
        raise DefinitionError(
            "--audit-older-than must be at least --older-than, and at least 1",
            hint="An audit log outlives its conversation.",
        )
    now, progress = time.time(), _Progress()

    async def prune(ledger: SqlLedger) -> PruneReport:
        async def after_batch(report: PruneReport) -> None:
            progress.show(f"removed {report.conversations} conversations, {report.audits} audit logs")

        return await ledger.prune(
            now - days * _DAY,
            None if audit_days is None else now - audit_days * _DAY,
            now=now,
            is_dry_run=arguments.dry_run,
            whole_weeks=arguments.whole_weeks,
            after_batch=after_batch,
        )

    report = _on_ledger(arguments.ledger, prune)
    verb = "would remove" if arguments.dry_run else "removed"
    lines = [f"{verb} {report.conversations} conversations, {report.audits} audit logs"]
    lines += [f"dropped {name}" for name in report.dropped]
    lines += [f"kept {count}: {_REASONS[reason]}" for reason, count in sorted(report.kept.items()) if count]
    if not report.is_swept:
        lines.append("a table with removed messages is busy; run this again to drop it")
    streams.write("".join(f"{line}\n" for line in lines))


def _delete(arguments: Namespace) -> None:
    now, progress = time.time(), _Progress()
    principal = Principal(arguments.principal, arguments.tenant)
    who = f"{printable(principal.name)!r} of tenant {printable(principal.tenant)!r}"

    async def delete(ledger: SqlLedger) -> PruneReport:
        async def after_batch(report: PruneReport) -> None:
            progress.show(f"removed {report.conversations} conversations, {report.traces} traces")

        return await ledger.delete_principal(
            principal, arguments.by, now=now, is_dry_run=not arguments.yes, after_batch=after_batch
        )

    report = _on_ledger(arguments.ledger, delete)
    if not arguments.yes:
        streams.write(f"would remove {report.conversations} conversations of {who}\n")
        raise LedgerError("nothing was removed", code="not_confirmed", hint="Repeat it with --yes.")
    streams.write(f"removed {report.conversations} conversations and {report.traces} traces of {who}\n")
    if report.held_ids:
        names = ", ".join(repr(printable(id)) for id in report.held_ids[:_SHOWN_IDS])
        more = f" and {len(report.held_ids) - _SHOWN_IDS} more" if len(report.held_ids) > _SHOWN_IDS else ""
        raise LedgerError(
            f"{len(report.held_ids)} conversations are in use and were not removed: {names}{more}",
            code="conversation_held",
            hint="Run it again when they have ended.",
        )


def _export(arguments: Namespace) -> None:
    progress = _Progress()

    async def export(ledger: SqlLedger) -> int:
        count = 0
        async for document in ledger.export(arguments.tenant, arguments.principal, arguments.since):
            # Escaped, because a text may contain half a surrogate pair, which UTF-8 cannot encode.
            sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
            count += 1
            progress.show(f"exported {count} conversations")
        sys.stdout.flush()
        return count

    count = _on_ledger(arguments.ledger, export)
    progress.note(f"exported {count} conversations")


def _check(arguments: Namespace) -> None:
    findings = _findings(arguments.ledger)
    for one in findings:
        advice = f"\n  {one.advice}" if one.advice else ""
        streams.write(f"{one.verdict:<8}{one.name:<12}{printable(one.evidence)}{advice}\n")
    if any(one.verdict != OK for one in findings):
        raise LedgerError("the ledger is not as it should be", code="ledger_check_failed", hint="See above.")


def _findings(address: str) -> list[LedgerFinding]:
    version = read_ledger_version(address)
    if version != VERSION:
        advice = "run `ferrule ledger migrate`" if version < VERSION else "install the release that has raised it"
        return [LedgerFinding("version", FAILED, f"{version}; this release needs {VERSION}", advice)]
    return [LedgerFinding("version", OK, str(version)), *_on_ledger(address, _examine)]


async def _examine(ledger: SqlLedger) -> list[LedgerFinding]:
    progress, count = _Progress(), 0

    async def after_page(verified: int) -> None:
        nonlocal count
        count = verified
        progress.show(f"verified {verified} conversations")

    breach = await ledger.verify_pages(after_page)
    findings = [
        LedgerFinding("audit", OK, f"the chains of {count} conversations are whole")
        if breach is None
        else LedgerFinding("audit", FAILED, str(breach), "do not trust rows from this one on; compare with a copy")
    ]
    strays = await ledger.count_strays()
    evidence = ", ".join(f"{count} in {table}" for table, count in strays.items())
    findings.append(
        LedgerFinding("rows", FAILED, f"without a conversation: {evidence}", "compare with a copy, then delete them")
        if strays
        else LedgerFinding("rows", OK, "every row has its conversation")
    )
    unfilled = await ledger.count_unfilled()
    if unfilled:
        evidence = f"{unfilled}{' or more' if unfilled == 500 else ''} conversations of an earlier version lack a title"
        findings.append(LedgerFinding("upgrade", WARNING, evidence, "run `ferrule ledger migrate`"))
    missing = await ledger.missing_partitions(now=time.time())
    if missing:
        advice = "open it with a user that owns the tables, such as with `ferrule ledger migrate`"
        findings.append(LedgerFinding("partitions", WARNING, f"missing: {', '.join(missing)}", advice))
    return findings


def _migrate(arguments: Namespace) -> None:
    progress = _Progress()
    before = read_ledger_version(arguments.ledger)
    if not before:
        raise LedgerError("there is no ledger at this address", code="unknown_ledger", hint="Check the address.")

    async def migrate() -> int:
        async def after_batch(count: int) -> None:
            progress.show(f"filled in {count} conversations")

        async with await migrate_ledger(arguments.ledger, progress.note) as ledger:
            return await ledger.fill_conversations(after_batch)

    count = asyncio.run(migrate())
    streams.write(f"version {before} is now version {VERSION}; filled in {count} conversations\n")


def _on_ledger(address: str, work: Callable[[SqlLedger], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        async with await open_ledger(address, must_exist=True) as ledger:
            return await work(ledger)

    return asyncio.run(run())


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not (0 <= days < 1e6):
        raise ArgumentTypeError(f"{text!r} is not a number of days")
    return days


def _date(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a date such as 2026-01-31") from None


COMMAND = Command(
    name="ledger",
    about="Prune, export, check or migrate a ledger.",
    more="`ferrule ledger ACTION --help` explains an action. All of them work while gateways run.",
    examples="  ferrule ledger prune --ledger postgresql://localhost/ferrule --older-than 90 --dry-run\n"
    "  ferrule ledger delete --ledger ledger.db --principal ann --yes\n"
    "  ferrule ledger export --ledger ledger.db --tenant acme > acme.jsonl\n"
    "  ferrule ledger check --ledger ledger.db",
    add_options=_add_options,
    run=_run,
)
