"""Retention: which conversations are old enough to be removed, and what was removed. Independent of the database.

Removing happens in two stages, each with an age of its own:

1. A conversation that nobody owns, that was not changed for some time, and in which nothing waits loses its content:
   messages, calls, approvals, responses, requests, tool usage and traces. Its audit log stays whole, ends with a row
   `pruned`, and a stub of the conversation keeps its head. The id cannot be opened again: a call in it would run twice.
2. Later the stub and the audit log go too.

A call with side effects that was started and has no outcome is a question that somebody may still have to answer. Its
conversation is kept until the age of the second stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.run.ledger.partitions import Partition, day_of
from ferrule.run.ledger.removal import Candidate
from ferrule.run.ledger.stored_requests import KEY_SECONDS
from ferrule.run.ledger.transaction import Transaction, execute

BATCH = 200
"""How many conversations are removed in one transaction."""
UNKNOWN, HELD = "unknown", "held"
_PAGE = 500


def find_prunable(before: float, now: float, last: tuple[int, str]) -> Transaction[list[Candidate]]:
    """Return a page of conversations that were not changed since `before`, each with the reason to keep it."""
    moments = (float(before), float(now), float(now))
    rows = (yield from execute("prunable", *moments, day_of(before), float(before), *last, _PAGE)).rows
    return [Candidate.of(row) for row in rows]


def find_deletable(tenant: str, principal: str, now: float, last: str) -> Transaction[list[Candidate]]:
    """Return a page of one person's conversations, of any age."""
    moments = (float(now), float(now), float(now))
    rows = (yield from execute("deletable", *moments, tenant, principal, last, _PAGE)).rows
    return [Candidate.of(row) for row in rows]


def find_stubs(before: float, last: tuple[int, str]) -> Transaction[list[tuple[str, int, int]]]:
    rows = (yield from execute("old_stubs", day_of(before), float(before), *last, _PAGE)).rows
    return [(id, born, seq) for id, born, seq in rows]


def forget_requests(now: float) -> Transaction[int]:
    """Remove what was kept of requests whose key has run out. Returns how many, at most a batch."""
    answers = [row[0] for row in (yield from execute("old_blank_requests", float(now - KEY_SECONDS), _PAGE)).rows]
    for answer in answers:
        yield from execute("remove_blank_response", answer)
        yield from execute("remove_blank_request", answer)
    return len(answers)


def forget_person(tenant: str, principal: str, now: float) -> Transaction[int]:
    """Remove traces and requests of one person that belong to no conversation. Returns how many traces, at most a page.

    A request whose key still counts keeps its row, without content.
    """
    ids = [row[0] for row in (yield from execute("traces_of_principal", tenant, principal, _PAGE)).rows]
    for id in ids:
        for name in ("forget_traced_requests", "forget_trace_tools", "forget_trace"):
            yield from execute(name, id)
    yield from execute("remove_requests_of", tenant, principal, float(now - KEY_SECONDS))
    yield from execute("blank_requests_of", tenant, principal)
    return len(ids)


def due_weeks(weeks: Sequence[Partition], before: float) -> list[Partition]:
    """Return the partitions of which every conversation was opened before the day of a time."""
    return [one for one in weeks if one.end is not None and one.end <= day_of(before)]


def waiting_weeks(weeks: Sequence[Partition], before: float) -> list[Partition]:
    """Return the weeks that will be due as a whole later. The early partition is none: it may hold years."""
    return [one for one in weeks if one.first is not None and one.end is not None and one.end > day_of(before)]


def is_within(weeks: Sequence[Partition], born: int) -> bool:
    return any(one.contains(born) for one in weeks)
