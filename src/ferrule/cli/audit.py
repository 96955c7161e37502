"""`ferrule audit`: what happened in a conversation, and whether that is still what was written down."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from ferrule.cli import json_view, streams
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, moment, on_ledger
from ferrule.cli.terminal import seen
from ferrule.core.visible_text import exactly
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import AuditRecord, Breach, Ledger


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="CONVERSATION", help="its id")
    add_ledger_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> None:
    async def read(ledger: Ledger) -> tuple[tuple[AuditRecord, ...], Breach | None]:
        name = arguments.conversation
        return await ledger.audit(name), await ledger.verify(name)

    rows, breach = on_ledger(arguments.ledger, read)
    if not rows and breach is None:
        raise LedgerError(f"there is no conversation {seen(arguments.conversation)!r}", code="unknown_conversation")
    if arguments.json:
        told = {"rows": [asdict(row) for row in rows], "breach": asdict(breach) if breach else None}
        streams.write(json_view.page(told) + "\n")
    else:
        streams.write("".join(map(_line, rows)))
    if breach is not None:
        raise LedgerError(
            f"the audit was tampered with: {breach}",
            code="audit_broken",
            hint="Nothing from this row on can be believed; compare with a copy.",
        )
    if not arguments.json:
        streams.write(f"whole: {len(rows)} rows, the last hash is {rows[-1].hash}\n")


def _line(row: AuditRecord) -> str:
    about = [seen(str(text)) for text in (row.call_id, row.approval) if text]
    # A damaged row is printed too, so nothing is taken to have the type that it should have.
    at = moment(row.at) if isinstance(row.at, float) else seen(str(row.at))
    told = exactly(str(row.detail).encode("utf-8", "surrogatepass"))
    return f"{row.seq:>4}  {at}  {seen(str(row.kind)):<17}  {seen(str(row.by))}  {'  '.join([*about, told])}\n"


COMMAND = Command(
    name="audit",
    about="Print what happened in a conversation, and verify it.",
    more="Every row holds the hash of the one before: the first that was changed, removed or inserted\n"
    "is named, and the exit code is 1. Keep the last hash elsewhere: whoever can write the whole\n"
    "database can write the whole chain anew.",
    examples="  ferrule audit c-7f3a --ledger ledger.db\n  ferrule audit c-7f3a --ledger ledger.db --json",
    add_options=_add_options,
    run=_run,
)
