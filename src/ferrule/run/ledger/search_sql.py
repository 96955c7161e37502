"""The statements that list and search conversations and traces, newest first.

A search must be fast for a word that occurs everywhere, and for one that occurs nowhere. The index of words knows
nothing of time: for a word that occurs everywhere it returns everything, and all of that would have to be sorted. So a
search has two statements. The first one looks at the newest conversations, one after another, with the same index, and
stops when the page is full. If that does not happen among the newest `RECENT`, then the word is rare, or occurs only in
older conversations, and the second one asks the index for all that there are.

Where there is no index (yet), a third one reads every message, and finds parts of words too.
"""

from __future__ import annotations

from collections.abc import Mapping

from ferrule.run.ledger.lease_tables import HELD_UNTIL
from ferrule.run.ledger.search_words import postgres_query, postgres_words
from ferrule.run.ledger.tables import TRACE_STATUS, TRACE_VIEW

FIRST, RECENT = 200, 1_000
"""How many conversations, or traces, the first statement of a search looks at: at first, and then if some match."""
HAS_MESSAGES = "{} <> '[]'"
"""A request whose conversation is in the ledger stores no messages of its own."""
_COLUMNS = "c.id, c.tenant, c.principal, c.version, c.lease_until, c.opened_at, c.changed_at, c.title"
_CONVERSATION = _COLUMNS.replace("c.lease_until", f"{HELD_UNTIL} AS lease_until")
_BETWEEN = "AND (c.opened_at, c.id) < (?, ?) AND (c.opened_at, c.id) > (?, ?) "
# Subqueries with LIMIT instead of EXISTS: PostgreSQL would read a whole table once to answer EXISTS for many rows.
_REST = (
    "AND (? = '' OR (SELECT k.id FROM ferrule_call k WHERE k.conversation = c.id AND k.tool = ? LIMIT 1) IS NOT NULL) "
    "AND (? = 0 OR (SELECT r.id FROM ferrule_traced_request r WHERE r.conversation = c.id AND r.conversation <> '' "
    "LIMIT 1) IS NULL) AND c.changed_at >= ? AND c.opened_at < ? "
)
_NEWEST = "ORDER BY c.opened_at DESC, c.id DESC LIMIT ?"
# Rows past the number of messages are left from a state that was replaced. A conversation of an earlier version has no
# number yet, but rows that were made for the search.
_IS_CURRENT = (
    "(h.n < c.messages OR (c.messages = 0 "
    "AND (SELECT s.state FROM ferrule_conversation s WHERE s.id = c.id LIMIT 1) <> 'null'))"
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
    "AND (? = '' OR (SELECT k.tool FROM ferrule_trace_tool k WHERE k.trace = t.id AND k.tool = ? LIMIT 1) IS NOT NULL) "
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


def _searches(query: str, in_conversation: str, in_request: str, hits: str, request_hits: str) -> dict[str, str]:
    """Return the statements of searches, out of the parts in which the databases differ.

    `query` makes `q` of the first value. `in_conversation` selects what contains it in the conversation `{id}`, and
    `in_request` in the request `r`; `hits` selects `conversation` and the smallest `n` of all messages that contain it,
    and `request_hits` the `trace` of all requests.
    """
    found_in_request = (
        f"EXISTS (SELECT 1 FROM ferrule_traced_request r WHERE r.trace = t.id AND ({in_request} OR EXISTS ("
        f"SELECT 1 FROM ferrule_conversation c WHERE c.id = r.conversation AND EXISTS ({in_conversation}))))"
    )
    texts: dict[str, str] = {}
    for suffix, form in _WHOSE.items():
        whose = form.format("c")
        columns = f"{_CONVERSATION}, c.messages"
        near = f"SELECT {columns} FROM ferrule_conversation c WHERE c.tenant = ? {whose}{_BETWEEN}{_NEWEST}"
        texts[f"search_recent{suffix}"] = (
            f"WITH {query} SELECT {_COLUMNS} FROM ({near}) c WHERE EXISTS ({in_conversation}) {_REST}{_NEWEST}"
        )
        # The conversations are found by their key, however many the planner expects.
        texts[f"search_all{suffix}"] = (
            f"WITH {query}, h AS ({hits}) SELECT {_CONVERSATION} FROM h {{join}} "
            f"WHERE {_IS_CURRENT} AND c.tenant = ? {whose}{_BETWEEN}{_REST}{_NEWEST}"
        )
        texts[f"has_older{suffix}"] = (
            f"SELECT 1 FROM ferrule_conversation c WHERE c.tenant = ? {whose}{_BETWEEN}{_NEWEST} OFFSET ?"
        )
        whose = form.format("t")
        walked = (
            f"(SELECT * FROM ferrule_trace t WHERE t.tenant = ? {whose}AND (t.began_at, t.id) < (?, ?) "
            "ORDER BY t.began_at DESC, t.id DESC LIMIT ?) t"
        )
        texts[f"trace_search_recent{suffix}"] = f"WITH {query} " + _TRACE_PAGE.format(
            whose=whose, text=f"AND {found_in_request} "
        ).replace("ferrule_trace t", walked, 1)
        texts[f"trace_search_all{suffix}"] = (
            f"WITH {query}, h AS ({hits}), found AS ({request_hits} UNION SELECT r.trace FROM h {{join}} "
            "JOIN ferrule_traced_request r ON r.conversation = h.conversation AND r.conversation <> '' "
            f"WHERE {_IS_CURRENT}) "
        ) + _TRACE_PAGE.format(whose=whose, text="AND t.id IN (SELECT trace FROM found) ")
        texts[f"has_older_traces{suffix}"] = (
            f"SELECT 1 FROM ferrule_trace t WHERE t.tenant = ? {whose}AND (t.began_at, t.id) < (?, ?) "
            f"ORDER BY t.began_at DESC, t.id DESC LIMIT 1 OFFSET ?"
        )
    return texts


def _postgres() -> dict[str, str]:
    of_message = f"{postgres_words('m.body')} @@ (SELECT q FROM query)"
    of_request = f"{postgres_words('r.messages')} @@ (SELECT q FROM query) AND {HAS_MESSAGES.format('r.messages')}"
    texts = _searches(
        query=f"query AS (SELECT {postgres_query('v.body')} AS q FROM (SELECT CAST(? AS TEXT) AS body) v)",
        # In the index, whose second column is the conversation. So it costs the same whatever the messages are.
        in_conversation=f"SELECT 1 FROM ferrule_message m WHERE {of_message} AND ARRAY[m.conversation] @> ARRAY[c.id] "
        f"AND {_IS_CURRENT.replace('h.n', 'm.n')}",
        in_request=f"EXISTS (SELECT 1 FROM ferrule_traced_request x WHERE {of_request.replace('r.', 'x.')} "
        "AND ARRAY[x.trace] @> ARRAY[t.id])",
        hits=f"SELECT m.conversation, MIN(m.n) AS n FROM ferrule_message m WHERE {of_message} GROUP BY m.conversation",
        request_hits=f"SELECT r.trace FROM ferrule_traced_request r WHERE {of_request}",
    )
    join = "CROSS JOIN LATERAL (SELECT * FROM ferrule_conversation c WHERE c.id = h.conversation OFFSET 0) c"
    return {name: text.replace("{join}", join) for name, text in texts.items()}


def _sqlite() -> dict[str, str]:
    # SQLite joins what is joined by CROSS JOIN in this order. One conversation has few rows; all of them, very many.
    # In few rows the words are compared: to ask the index for each of them takes longer.
    few = "FROM ferrule_word_row w CROSS JOIN ferrule_words_content t ON t.id = w.id WHERE w.kind = '{kind}' "
    has_words = (
        "AND NOT EXISTS (SELECT 1 FROM query CROSS JOIN json_each(query.words) j "
        "WHERE INSTR(' ' || t.c0 || ' ', ' ' || j.value || ' ') = 0)"
    )
    every = "FROM ferrule_words f CROSS JOIN ferrule_word_row w ON w.id = f.rowid "
    matches = (
        "WHERE f.ferrule_words MATCH (SELECT GROUP_CONCAT('\"' || j.value || '\"', ' AND ') "
        "FROM query CROSS JOIN json_each(query.words) j) AND w.kind = '{kind}'"
    )
    texts = _searches(
        query="query AS (SELECT ? AS words)",
        in_conversation=f"SELECT 1 {few.format(kind='message')}AND w.key = c.id {has_words} "
        f"AND {_IS_CURRENT.replace('h.n', 'w.n')}",
        in_request=f"EXISTS (SELECT 1 {few.format(kind='request')}AND w.key = r.id {has_words})",
        hits=f"SELECT w.key AS conversation, MIN(w.n) AS n {every}{matches.format(kind='message')} GROUP BY w.key",
        request_hits=f"SELECT r.trace {every}JOIN ferrule_traced_request r ON r.id = w.key "
        f"{matches.format(kind='request')}",
    )
    join = "CROSS JOIN ferrule_conversation c ON c.id = h.conversation"
    texts = {name: text.replace("{join}", join) for name, text in texts.items()}
    # The newest are read in their order already. To sort them again, SQLite would look at all of them first.
    recent = {name: text for name, text in texts.items() if name.startswith("search_recent")}
    return {**texts, **{name: text.removesuffix(_NEWEST) + "LIMIT ?" for name, text in recent.items()}}


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
