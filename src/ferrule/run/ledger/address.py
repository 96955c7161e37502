"""Opens a ledger by its address: the URL of a Postgres database, or the path or URL of a SQLite file."""

from __future__ import annotations

import re

from ferrule.errors import DefinitionError
from ferrule.run.ledger.sql import SqlLedger

_POSTGRES = ("postgresql://", "postgres://")
# As in SQLAlchemy: sqlite:///file.db is relative to the current directory, sqlite:////var/file.db is absolute.
_SQLITE = "sqlite:///"


async def open_ledger(address: str, *, must_exist: bool = False, must_answer: bool = True) -> SqlLedger:
    """Open the ledger at an address. With `must_exist` a missing SQLite file is an error, not created.

    With `must_answer=False` a Postgres server that cannot be reached is connected on first use.
    """
    if address.startswith(_POSTGRES):
        from ferrule.run.ledger.postgres import PostgresLedger

        return await PostgresLedger.connect(address, must_answer=must_answer)
    from ferrule.run.ledger.sqlite import SqliteLedger

    scheme = re.match(r"\w+://", address)
    if scheme and not address.startswith(_SQLITE):
        raise DefinitionError(
            f"a ledger cannot be opened at {scheme[0]}...",
            hint="Write postgresql://..., sqlite:///FILE or a file's path.",
        )
    return await SqliteLedger.connect(address.removeprefix(_SQLITE), must_exist=must_exist)
