"""Read-only transactions for people and programs: conversations and approvals of a tenant.

Every query takes a tenant, so that a caller cannot forget to restrict it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.ledger.search import ApprovalQuery, ConversationQuery, ConversationSummary
from ferrule.run.ledger.search_sql import FIRST, RECENT
from ferrule.run.ledger.search_words import search_text
from ferrule.run.ledger.tables import APPROVAL_FILTERS, approval_page_name
from ferrule.run.ledger.transaction import QueryResult, Row, Transaction, approval_of, execute

_LATEST = 1e300
"""Later than every time: where a list has no cursor."""
_TIMED = frozenset({"_live", "_expired"})
_LIVE = {ApprovalState.PENDING: "_live", ApprovalState.APPROVED: "_live"}
_EXPIRED = {ApprovalState.PENDING: "_expired", ApprovalState.APPROVED: "_expired"}
_DECIDED = (ApprovalState.APPROVED, ApprovalState.DENIED, ApprovalState.REDEEMED, ApprovalState.REPLACED)
APPROVAL_STATUSES: Mapping[str, Sequence[tuple[ApprovalState, str]]] = {
    "": [(state, "") for state in ApprovalState],
    **{state.value: [(state, _LIVE.get(state, ""))] for state in ApprovalState},
    "expired": [*_EXPIRED.items()],
    "decided": [(state, "_decided") for state in _DECIDED],
}
"""The states in the ledger, each with a further condition, that make up a status."""


@dataclass(frozen=True, slots=True)
class Range:
    """Which part of a list is read: after `cursor` and before `floor`, each a time and an id; and active in a time."""

    cursor: tuple[float, str] = (_LATEST, "")
    floor: tuple[float, str] = (-_LATEST, "")
    since: float = 0.0
    until: float = _LATEST


def find_conversations(
    tenant: str, query: ConversationQuery, words: str | None = None, part: Range | None = None
) -> Transaction[tuple[ConversationSummary, ...]]:
    """Return conversations, newest first. `words` is the text of the query for the index of words; None without one."""
    part = part or Range()
    if query.after:
        rows = (yield from execute("opened_at", query.after, tenant)).rows
        if not rows:
            raise LedgerError("the cursor names no conversation", code="bad_cursor", hint="Start without a cursor.")
        part = replace(part, cursor=(float(rows[0][0]), query.after))
    suffix = "_by" if query.principal else ""
    where = (tenant, query.principal) if query.principal else (tenant,)
    between = (*where, *part.cursor, *part.floor)
    rest = (query.tool, query.tool, int(query.is_untraced), float(part.since), float(part.until))
    if not query.text:
        rows = (yield from execute(f"conversations_of{suffix}", *between, *rest, query.limit)).rows
    elif words is None:
        pattern = like_pattern(query.text)
        values = (*between, pattern, pattern, *rest, query.limit)
        rows = (yield from execute(f"conversations_of{suffix}_scanned", *values)).rows
    elif not words:
        rows = []
    else:
        rows = yield from search_newest(
            query.limit,
            lambda walk: execute(f"search_recent{suffix}", words, *between, walk, *rest, query.limit),
            lambda walk: execute(f"has_older{suffix}", *between, 1, walk),
            lambda: execute(f"search_all{suffix}", words, *between, *rest, query.limit),
        )
    return tuple(ConversationSummary(*row) for row in rows)


def search_newest(
    limit: int,
    find_recent: Callable[[int], Transaction[QueryResult]],
    find_older: Callable[[int], Transaction[QueryResult]],
    find_all: Callable[[], Transaction[QueryResult]],
) -> Transaction[list[Row]]:
    """Search among the newest first, and among all if that cannot fill the page: see `search_sql`."""
    for walk in (FIRST, RECENT):
        rows = (yield from find_recent(walk)).rows
        if len(rows) >= limit or not (yield from find_older(walk)).rows:
            return rows
        if len(rows) * RECENT < limit * walk:
            # So few that more of the newest would not fill it either.
            break
    return (yield from find_all()).rows


def find_approvals(state: ApprovalState | None, after: str, limit: int) -> Transaction[tuple[Approval, ...]]:
    """Return approvals of all tenants, oldest first."""
    at = yield from _cursor(None, after, is_newest_first=False)
    pages = [("approvals_in", (one.value, *at, limit)) for one in (ApprovalState if state is None else (state,))]
    return (yield from _merged(pages, limit, is_newest_first=False))


def find_tenant_approvals(
    tenant: str, state: ApprovalState | None, after: str, limit: int
) -> Transaction[tuple[Approval, ...]]:
    """Return approvals of a tenant as they are stored, oldest first."""
    states = tuple(ApprovalState) if state is None else (state,)
    query = ApprovalQuery(after=after, limit=limit)
    return (yield from _page(tenant, query, [(one, "") for one in states]))


def search_approvals(tenant: str, query: ApprovalQuery) -> Transaction[tuple[Approval, ...]]:
    """Return approvals of a tenant by their status."""
    return (yield from _page(tenant, query, APPROVAL_STATUSES[query.status]))


def _page(
    tenant: str, query: ApprovalQuery, parts: Sequence[tuple[ApprovalState, str]]
) -> Transaction[tuple[Approval, ...]]:
    cursor = yield from _cursor(tenant, query.after, is_newest_first=query.is_newest_first)
    given = {name: getattr(query, name) for name in APPROVAL_FILTERS}
    filters = {name: value for name, value in given.items() if value}
    pages: list[tuple[str, tuple[object, ...]]] = []
    for state, condition in parts:
        name = approval_page_name(condition, tuple(filters), is_newest_first=query.is_newest_first)
        times = (float(query.now),) if condition in _TIMED else ()
        pages.append((name, (tenant, state.value, *times, *filters.values(), *cursor, query.limit)))
    return (yield from _merged(pages, query.limit, is_newest_first=query.is_newest_first))


def _cursor(tenant: str | None, after: str, *, is_newest_first: bool) -> Transaction[tuple[float, str]]:
    """Return where a page begins: after this approval, or at the end of all times. One of another tenant is unknown."""
    if not after:
        return (_LATEST if is_newest_first else -_LATEST), ""
    rows = (yield from execute("approval_cursor", after)).rows
    if not rows or tenant not in (None, rows[0][1]):
        raise LedgerError("the cursor names no approval", code="bad_cursor", hint="Start without a cursor.")
    return float(rows[0][0]), after


def _merged(
    pages: Iterable[tuple[str, tuple[object, ...]]], limit: int, *, is_newest_first: bool
) -> Transaction[tuple[Approval, ...]]:
    """Return one page out of a page for each state: so each of them is read by an index, from where it begins."""
    approvals: dict[str, Approval] = {}
    for name, values in pages:
        # States are read in the order in which an approval goes through them, so that one that changes meanwhile is
        # not missed. If it is read twice, the later state counts.
        approvals |= {one.id: one for one in map(approval_of, (yield from execute(name, *values)).rows)}
    in_order = sorted(approvals.values(), key=lambda one: (one.requested_at, one.id), reverse=is_newest_first)
    return tuple(in_order[:limit])


def find_conversation_approvals(conversation: str) -> Transaction[tuple[Approval, ...]]:
    return tuple(map(approval_of, (yield from execute("approvals_in_conversation", conversation)).rows))


def find_earlier_approvals(
    tenant: str, tool_times: Iterable[tuple[str, float]]
) -> Transaction[tuple[Approval | None, ...]]:
    approvals: dict[tuple[str, float], Approval | None] = {}
    keys = [(tool, min(float(time), _LATEST)) for tool, time in tool_times]
    for tool, time in dict.fromkeys(keys):
        rows = (yield from execute("approved_before", tenant, tool, time)).rows
        approvals[tool, time] = approval_of(rows[0]) if rows else None
    return tuple(approvals[one] for one in keys)


def like_pattern(text: str) -> str:
    """Return a LIKE pattern. The text is escaped as in the stored JSON, and wildcards in it are literal."""
    pattern = search_text(text).lower()
    for wildcard in ("!", "%", "_"):
        pattern = pattern.replace(wildcard, f"!{wildcard}")
    return f"%{pattern}%"
