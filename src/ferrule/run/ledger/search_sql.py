"""The statements that list and search conversations and traces, newest first.

A search must be fast for a word that occurs everywhere, and for one that occurs nowhere. The index of words knows
nothing of time: for a word that occurs everywhere it returns everything, and all of that would have to be sorted. So a
search has two statements. The first one looks only among the newest `RECENT` conversations, with the same index. If
that does not fill the page, then the word is rare, or occurs only in older conversations, and the second one asks the
index for all that there are.

Where there is no index (yet), a third one reads every message, and finds parts of words too.
"""

from __future__ import annotations

from collections.abc import Mapping

from ferrule.run.ledger.lease_tables import HELD_UNTIL
from ferrule.run.ledger.search_words import postgres_query, postgres_words
from ferrule.run.ledger.tables import TRACE_STATUS, TRACE_VIEW

RECENT = 1_000
"""How many conversations, or traces, the first statement of a search looks at."""
HAS_MESSAGES = "{} <> '[]'"
"""A request whose conversation is in the ledger stores no messages of its own."""
_COLUMNS = "c.id, c.tenant, c.principal, c.version, c.lease_until, c.opened_at, c.changed_at, c.title"
_CONVERSATION = _COLUMNS.replace("c.lease_until", f"{HELD_UNTIL} AS lease_until")
_BETWEEN = "AND (c.opened_at, c.id) < (?, ?) AND (c.opened_at, c.id) > (?, ?) "
_REST = (
    "AND (? = '' OR EXISTS (SELECT 1 FROM ferrule_call k WHERE k.conversation = c.id AND k.tool = ?)) "
    "AND (? = 0 OR NOT EXISTS (SELECT 1 FROM ferrule_traced_request r WHERE r.conversation = c.id)) "
    "AND c.changed_at >= ? AND c.opened_at < ? "
)
_NEWEST = "ORDER BY c.opened_at DESC, c.id DESC LIMIT ?"
# Rows past the number of messages are left from a state that was replaced. A conversation of an earlier version has no
# number yet, but rows that were made for the search.
_IS_CURRENT = (
    "(h.n < c.messages OR (c.messages = 0 AND EXISTS "
    "(SELECT 1 FROM ferrule_conversation s WHERE s.id = c.id AND s.state <> 'null')))"
)
# Whether a conversation contains a text: in a message, or in the state of an earlier version.
_CONTAINS_TEXT = (
    "(EXISTS (SELECT 1 FROM ferrule_message m JOIN ferrule_conversation s ON s.id = m.conversation "
    "WHERE m.conversation = {id} AND m.born = s.born AND m.n < s.messages AND LOWER(m.body) LIKE ? ESCAPE '!') "
    "OR EXISTS (SELECT 1 FROM ferrule_conversation s WHERE s.id = {id} AND LOWER(s.state) LIKE ? ESCAPE '!'))"
)
_WHOSE = {"": "", "_by": "AND {}.principal = ? "}

_TRACE_PAGE = (
    f"SELECT u.* FROM (SELECT {TRACE_VIEW.replace(TRACE_STATUS, f'{TRACE_STATUS} AS status')} "
    "FROM ferrule_trace t WHERE t.tenant = ? {whose}AND (t.began_at, t.id) < (?, ?) {text}"
    "AND (? = '' OR EXISTS (SELECT 1 FROM ferrule_trace_tool k WHERE k.trace = t.id AND k.tool = ?)) "
    "AND t.changed_at >= ? AND t.began_at < ?) u WHERE (? = '' OR u.status = ?) "
    "ORDER BY u.began_at DESC, u.id DESC LIMIT ?"
)
_TRACE_CONTAINS = (
    "AND (LOWER(t.title) LIKE ? ESCAPE '!' "
    "OR EXISTS (SELECT 1 FROM ferrule_traced_request r WHERE r.trace = t.id AND LOWER(r.messages) LIKE ? ESCAPE '!') "
    "OR EXISTS (SELECT 1 FROM ferrule_traced_request r "
    f"WHERE r.trace = t.id AND {_CONTAINS_TEXT.format(id='r.conversation')})) "
)


def _lists() -> dict[str, str]:
    """Return the statements that need no index of words."""
    texts: dict[str, str] = {}
    for suffix, whose in _WHOSE.items():
        for name, text in {"": "", "_scanned": f"AND {_CONTAINS_TEXT.format(id='c.id')} "}.items():
            texts[f"conversations_of{suffix}{name}"] = (
                f"SELECT {_CONVERSATION} FROM ferrule_conversation c WHERE c.tenant = ? {whose.format('c')}"
                f"{_BETWEEN}{text}{_REST}{_NEWEST}"
            )
        for name, text in {"": "", "_scanned": _TRACE_CONTAINS}.items():
            texts[f"traces_of{suffix}{name}"] = _TRACE_PAGE.format(whose=whose.format("t"), text=text)
    return texts


LIST_STATEMENTS: Mapping[str, str] = _lists()


def _searches(query: str, hits: str, near_hits: str, trace_hits: str, near_trace_hits: str) -> dict[str, str]:
    """Return the statements of searches, out of the parts in which the databases differ.

    `query` makes `q` of the first value. The others select what contains it: `conversation` and the smallest `n` of its
    messages among all messages, or among those of the conversations in `near`; `trace` likewise.
    """
    walked = f"SELECT 1 AS is_found, {_CONVERSATION}, c.messages FROM ferrule_conversation c WHERE c.tenant = ? "
    columns = _COLUMNS.replace("c.", "")
    texts: dict[str, str] = {}
    for suffix, form in _WHOSE.items():
        whose = form.format("c")
        texts[f"search_recent{suffix}"] = (
            f"WITH {query}, near AS ({walked}{whose}{_BETWEEN}{_NEWEST}), h AS ({near_hits}) "
            f"SELECT * FROM (SELECT {_COLUMNS}, 0 AS walked FROM near c JOIN h ON h.conversation = c.id "
            f"AND {_IS_CURRENT} WHERE c.is_found = 1 {_REST}{_NEWEST}) f "
            "UNION ALL SELECT '', '', '', 0, 0.0, 0.0, 0.0, '', COUNT(*) FROM near"
        )
        texts[f"search_all{suffix}"] = (
            f"WITH {query}, h AS ({hits}) SELECT {columns} FROM (SELECT {_CONVERSATION} FROM h "
            f"JOIN ferrule_conversation c ON c.id = h.conversation AND {_IS_CURRENT} "
            f"WHERE c.tenant = ? {whose}{_BETWEEN}{_REST}{_NEWEST}) f ORDER BY opened_at DESC, id DESC"
        )
        whose = form.format("t")
        page = _TRACE_PAGE.format(whose=whose, text="AND t.id IN (SELECT trace FROM found) ")
        in_conversations = (
            f"SELECT r.trace FROM h JOIN ferrule_conversation c ON c.id = h.conversation AND {_IS_CURRENT} "
            "JOIN {requests} r ON r.conversation = h.conversation"
        )
        texts[f"trace_search_recent{suffix}"] = (
            f"WITH {query}, walked AS (SELECT t.id FROM ferrule_trace t WHERE t.tenant = ? {whose}"
            "AND (t.began_at, t.id) < (?, ?) ORDER BY t.began_at DESC, t.id DESC LIMIT ?), "
            "near_requests AS (SELECT r.trace, r.conversation FROM walked w "
            "JOIN ferrule_traced_request r ON r.trace = w.id), "
            "near AS (SELECT DISTINCT conversation AS id FROM near_requests WHERE conversation <> ''), "
            f"h AS ({near_hits}), "
            f"found AS ({near_trace_hits} UNION {in_conversations.format(requests='near_requests')}) "
            f"SELECT f.*, 0 AS walked FROM ({page}) f UNION ALL SELECT '', '', '', 0.0, 0.0, '', '', '', '', "
            "0, 0, 0, 0, 0.0, COUNT(*) FROM walked"
        )
        texts[f"trace_search_all{suffix}"] = (
            f"WITH {query}, h AS ({hits}), "
            f"found AS ({trace_hits} UNION {in_conversations.format(requests='ferrule_traced_request')}) {page}"
        )
    return texts


def _postgres() -> dict[str, str]:
    of_message = f"{postgres_words('m.body')} @@ (SELECT q FROM query)"
    of_request = f"{postgres_words('r.messages')} @@ (SELECT q FROM query) AND {HAS_MESSAGES.format('r.messages')}"
    matching = f"FROM ferrule_message m WHERE {of_message}"
    texts = _searches(
        query=f"query AS (SELECT {postgres_query('v.body')} AS q FROM (SELECT CAST(? AS TEXT) AS body) v)",
        hits=f"SELECT m.conversation, MIN(m.n) AS n {matching} GROUP BY m.conversation",
        near_hits=f"SELECT m.conversation, MIN(m.n) AS n {matching} "
        "AND ARRAY[m.conversation] && (SELECT array_agg(id) FROM near) GROUP BY m.conversation",
        trace_hits=f"SELECT r.trace FROM ferrule_traced_request r WHERE {of_request}",
        near_trace_hits=f"SELECT r.trace FROM ferrule_traced_request r WHERE {of_request} "
        "AND ARRAY[r.trace] && (SELECT array_agg(id) FROM walked)",
    )
    # Each part once and as written: the planner must not move one into another.
    return {name: text.replace(" AS (SELECT ", " AS MATERIALIZED (SELECT ") for name, text in texts.items()}


def _sqlite() -> dict[str, str]:
    matching = (
        "FROM ferrule_words f JOIN ferrule_word_row w ON w.id = f.rowid "
        "WHERE f.ferrule_words MATCH (SELECT q FROM query) AND w.kind = '{kind}'"
    )
    hits = f"SELECT w.key AS conversation, MIN(w.n) AS n {matching.format(kind='message')}{{range}} GROUP BY w.key"
    ids = "SELECT {end}(x.id) FROM near e JOIN ferrule_word_row x ON x.kind = 'message' AND x.key = e.id"
    request_ids = (
        "SELECT {end}(x.id) FROM walked e JOIN ferrule_traced_request r ON r.trace = e.id "
        "JOIN ferrule_word_row x ON x.kind = 'request' AND x.key = r.id"
    )
    in_requests = f"SELECT r.trace {matching.format(kind='request').replace(' WHERE ', ' {join} WHERE ')}{{range}}"
    join = "JOIN ferrule_traced_request r ON r.id = w.key"

    def between(ids: str) -> str:
        return f" AND f.rowid BETWEEN ({ids.format(end='MIN')}) AND ({ids.format(end='MAX')})"

    return _searches(
        query="query AS (SELECT ? AS q)",
        hits=hits.format(range=""),
        near_hits=hits.format(range=between(ids)),
        trace_hits=in_requests.format(join=join, range=""),
        near_trace_hits=in_requests.format(join=join, range=between(request_ids)),
    )


_FILL = (
    "INSERT INTO ferrule_message (born, conversation, n, body) SELECT c.born, c.id, {n}, {body} "
    "FROM ferrule_conversation c, {each} WHERE c.id > ? AND c.id <= ? AND c.messages = 0 "
    "AND {is_list} ON CONFLICT DO NOTHING"
)
POSTGRES_SEARCHES: Mapping[str, str] = {
    **_postgres(),
    "fill_messages": _FILL.format(
        n="m.n - 1",
        body="m.body",
        each="json_array_elements(CASE WHEN json_typeof(c.state::json -> 'messages') = 'array' "
        "THEN c.state::json -> 'messages' ELSE '[]' END) WITH ORDINALITY AS m(body, n)",
        is_list="TRUE",
    ),
}
SQLITE_SEARCHES: Mapping[str, str] = {
    **_sqlite(),
    "fill_messages": _FILL.format(
        n="m.key",
        body="json(m.value)",
        each="json_each(c.state, '$.messages') m",
        is_list="json_type(c.state, '$.messages') = 'array'",
    ),
}
