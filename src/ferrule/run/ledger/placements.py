"""The transactions on placements: which of several databases has a tenant. Independent of the database.

See `sharded_ledger` for the rule. Each database knows its number in the list, and has one row for each tenant that is
in it: HERE. The first database also has a row for every tenant that is elsewhere: the number of its database.
"""

from __future__ import annotations

from enum import StrEnum

from ferrule.run.ledger.transaction import Transaction, execute

HERE = 0
"""The place of a tenant that is in the same database as the row."""


class IdKind(StrEnum):
    """What an id names: each kind has ids of its own."""

    CONVERSATION = "conversation"
    APPROVAL = "approval"
    RESPONSE = "response"
    REQUEST = "request"
    DELIVERY = "delivery"


def has(kind: IdKind, id: str) -> Transaction[bool]:
    return bool((yield from execute(f"has_{kind.value}", id)).rows)


def take_number(number: int) -> Transaction[int]:
    # Read first: a process that starts must not wait for those that write, where there is one lock for all of them.
    rows = (yield from execute("number")).rows
    if not rows:
        yield from execute("take_number", number)
        rows = (yield from execute("number")).rows
    return rows[0][0]


def find_placement(tenant: str) -> Transaction[int | None]:
    """Return the place of a tenant. One of which there is something here is here, also without a row."""
    ((place, has_rows),) = (yield from execute("placement", *[tenant] * 3)).rows
    return HERE if place is None and has_rows else place


def place_tenant(tenant: str, place: int) -> Transaction[int]:
    yield from execute("place_tenant", *[tenant] * 3, place)
    rows = (yield from execute("placement", *[tenant] * 3)).rows
    return rows[0][0]
