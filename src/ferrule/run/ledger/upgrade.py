"""Makes the tables of a ledger, or raises those of an earlier version to this one. Independent of the database.

Processes of the earlier version may still run: they look at the version only when they start, and what they write stays
valid, because columns and tables are only added. A conversation keeps the form of the earlier version until it is
next saved; until then its state contains its messages. After that, an earlier version refuses to load it.

The first process that opens a ledger raises it. For a large one `ferrule ledger migrate` does that before, without
making anyone wait, and fills in what the conversations of an earlier version lack.
"""

from __future__ import annotations

from ferrule.errors import LedgerError
from ferrule.run.ledger.tables import UPGRADABLE, VERSION
from ferrule.run.ledger.title import PREFIX_CHARS, title_of_state
from ferrule.run.ledger.transaction import Transaction, execute
from ferrule.run.timeline_entry import title_of

_BATCH = 500
_DAY = 86_400
BATCHES_WHEN_OPENED = 20
"""How many batches of conversations are filled in when a ledger is opened. The rest is for `ferrule ledger migrate`."""


def find_version() -> Transaction[int | None]:
    """Return the version of the tables, which must exist; None if they are new. Raises for one that cannot be read."""
    versions = [row[0] for row in (yield from execute("versions")).rows]
    if not versions:
        return None
    if len(versions) == 1 and versions[0] in (*UPGRADABLE, VERSION):
        return versions[0]
    raise LedgerError(
        f"the ledger has version {max(versions)}; this release needs version {VERSION}", code="ledger_version"
    )


def note_version(before: int | None) -> Transaction[None]:
    """Set the version to the one that this release writes."""
    if before is None:
        yield from execute("note_version", VERSION)
    elif before != VERSION:
        yield from execute("raise_version", VERSION, before)


def fill_conversations(after: str = "") -> Transaction[tuple[int, str]]:
    """Fill in the times and titles of some conversations of an earlier version, in the order of their ids.

    Returns how many there were, and the last id. None are left when there were none.
    """
    rows = (yield from execute("unfilled", PREFIX_CHARS, after, _BATCH)).rows
    for id, opened_at, changed_at, beginning, tool in rows:
        title = title_of_state(beginning) or title_of(tool or "")
        yield from execute("fill", opened_at, changed_at, title, int(opened_at) // _DAY, id)
    if rows:
        # A copy of the messages in their states, so that a search finds them. The next save writes these rows anew.
        yield from execute("fill_messages", after, rows[-1][0])
    return len(rows), rows[-1][0] if rows else after
