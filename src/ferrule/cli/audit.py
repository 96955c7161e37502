"""`ferrule audit`: prints the audit log of a conversation and verifies its hash chain."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from ferrule.cli import json_view, streams
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, moment, on_ledger
from ferrule.cli.terminal import printable
from ferrule.core.visible_text import visible
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
        raise LedgerError(f"unknown conversation {printable(arguments.conversation)!r}", code="unknown_conversation")
    if arguments.json:
        document = {"rows": [asdict(row) for row in rows], "breach": asdict(breach) if breach else None}
        streams.write(json_view.page(document) + "\n")
    else:
        streams.write("".join(map(_line, rows)))
    if breach is not None:
        raise LedgerError(
            f"the audit log was tampered with: {breach}",
            code="audit_broken",
            hint="Do not trust any row from this one on; compare with a copy.",
        )
    if not arguments.json:
        streams.write(f"verified: {len(rows)} rows, the last hash is {rows[-1].hash}\n")


def _line(row: AuditRecord) -> str:
    about = [printable(str(text)) for text in (row.call_id, row.approval) if text]
    # A damaged row is printed too, so no field is assumed to have the right type.
    at = moment(row.at) if isinstance(row.at, float) else printable(str(row.at))
    detail = visible(str(row.detail))
    return (
        f"{row.seq:>4}  {at}  {printable(str(row.kind)):<17}  {printable(str(row.by))}  {'  '.join([*about, detail])}\n"
    )


COMMAND = Command(
    name="audit",
    about="Print the audit log of a conversation and verify it.",
    more="Every row contains the hash of the row before. If a row was changed, removed or inserted, the\n"
    "first such row is reported and the exit code is 1. Keep the last hash elsewhere: anyone who can\n"
    "write to the whole database can rewrite the whole chain.",
    examples="  ferrule audit c-7f3a --ledger ledger.db\n  ferrule audit c-7f3a --ledger ledger.db --json",
    add_options=_add_options,
    run=_run,
)
