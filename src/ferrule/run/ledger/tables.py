"""The tables and statements of the ledger, once for all databases. A dialect defines the types and placeholders.

Some columns keep words that the code no longer uses (`needs_leave`, `fate`): existing databases have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from ferrule.run.ledger import credential_tables, lease_tables, retention_tables
from ferrule.run.ledger.lease_tables import HELD_UNTIL, IS_FREE

VERSION = 8
# Each version only adds tables and columns to the one before, so these are upgraded by creating what is missing.
UPGRADABLE = (1, 2, 3, 4, 5, 6, 7)

# Everything of a conversation but its state, in the order of `ConversationRecord`.
CONVERSATION_HEAD = (
    "id, tenant, principal, owner, epoch, lease_until, version, 'null', audit_seq, audit_head, messages, opened_at, "
    "changed_at, title, born, " + lease_tables.ALIVE_UNTIL.format(conversation="ferrule_conversation")
)
CALL = (
    "conversation, id, tool, tool_fingerprint, arguments, arguments_sha256, binding, side_effects, needs_leave, "
    "state, epoch, outcome"
)
APPROVAL = (
    "id, conversation, call_id, tenant, principal, tool, tool_fingerprint, arguments, arguments_sha256, binding, "
    "state, requested_at, expires_at, decided_by, decided_at, why"
)
# What is read of an approval: also its terms, and the number of votes for the arguments as they are now.
APPROVAL_VIEW = (
    f"{APPROVAL}, "
    "COALESCE((SELECT t.approvers FROM ferrule_approval_terms t WHERE t.approval = ferrule_approval.id), 1), "
    "COALESCE((SELECT t.four_eyes FROM ferrule_approval_terms t WHERE t.approval = ferrule_approval.id), 0), "
    "(SELECT COUNT(*) FROM ferrule_vote v WHERE v.approval = ferrule_approval.id "
    "AND v.binding = ferrule_approval.binding)"
)
RESPONSE = "id, conversation, tenant, principal, status, model, created, reach, cancelled, request"
REQUEST = "answer, tenant, principal, api, body_sha256, idempotency_key, begun_at, request"
SELECTION = "conversation, place, tenant, principal, at, model, offer, demanded, is_required, is_unanswered"
PICK = "conversation, selection, number, fingerprint, call_id, fate, wrote, is_retried, is_repeated"
CONTINUATION = "conversation, tenant, principal, generation, due_at, attempts, status, error"
TRACE = (
    "id, tenant, principal, began_at, changed_at, status, model, error, title, request_count, error_count, "
    "prompt_tokens, completion_tokens, cost"
)
TRACED_REQUEST = (
    "id, trace, tenant, principal, at, api, request_id, seconds, status, model, finish, error, error_status, "
    "error_message, error_detail, prompt_tokens, completion_tokens, cost, tools, conversation, messages, history_key, "
    "cached_tokens, prompt_prefix"
)
KEY = (
    "id, sha256, name, tenant, permissions, created_at, created_by, expires_at, revoked_at, revoked_by, replaced_by, "
    "last_used_at"
)
MAX_EARLIER_KEYS = 12
"""How many keys of a history one statement looks up."""
AUDIT = "conversation, seq, at, kind, call_id, approval, decided_by, epoch, detail, previous, hash"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The parts of SQL in which the databases differ."""

    placeholder: str
    integer: str
    real: str
    blob: str
    unless_exists: str
    """Adds a column only if there is none."""
    half_full: str
    """Leaves space on the pages of a table whose rows change often, so that its indexes need not change with them."""

    def schema(self, texts: Sequence[str]) -> list[str]:
        """Return statements that create tables and columns in this dialect."""
        types = {"INT8": self.integer, "REAL8": self.real, "BYTES": self.blob, " HALF_FULL": self.half_full}
        for name, own in types.items():
            texts = [text.replace(name, own) for text in texts]
        return list(texts)

    def new_columns(self, table: str, existing: Sequence[str] = ()) -> list[str]:
        """Return the statements that add the columns that a table lacks."""
        missing = {name: kind for name, kind in NEW_COLUMNS[table].items() if name not in existing}
        add = f"ALTER TABLE {table} ADD COLUMN {self.unless_exists}"
        return self.schema([f"{add}{name} {kind}" for name, kind in missing.items()])

    def statements(self, *more: Mapping[str, str]) -> dict[str, str]:
        """Return the statements in this dialect, and further ones that belong to it."""
        texts = {name: text for part in (STATEMENTS, *more) for name, text in part.items()}
        return {name: text.replace("?", self.placeholder) for name, text in texts.items()}


TABLES = (
    "CREATE TABLE IF NOT EXISTS ferrule_ledger (version INT8 PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS ferrule_conversation (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, principal TEXT NOT NULL, owner TEXT NOT NULL, epoch INT8 NOT NULL,
        lease_until REAL8 NOT NULL, version INT8 NOT NULL, state TEXT NOT NULL,
        audit_seq INT8 NOT NULL, audit_head TEXT NOT NULL) HALF_FULL""",
    """CREATE TABLE IF NOT EXISTS ferrule_call (
        conversation TEXT NOT NULL REFERENCES ferrule_conversation (id), id TEXT NOT NULL, tool TEXT NOT NULL,
        tool_fingerprint TEXT NOT NULL, arguments BYTES NOT NULL, arguments_sha256 TEXT NOT NULL,
        binding TEXT NOT NULL, side_effects INT8 NOT NULL, needs_leave INT8 NOT NULL, state TEXT NOT NULL,
        epoch INT8 NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (conversation, id))""",
    """CREATE TABLE IF NOT EXISTS ferrule_approval (
        id TEXT PRIMARY KEY, conversation TEXT NOT NULL, call_id TEXT NOT NULL, tenant TEXT NOT NULL,
        principal TEXT NOT NULL, tool TEXT NOT NULL, tool_fingerprint TEXT NOT NULL, arguments BYTES NOT NULL,
        arguments_sha256 TEXT NOT NULL, binding TEXT NOT NULL, state TEXT NOT NULL, requested_at REAL8 NOT NULL,
        expires_at REAL8 NOT NULL, decided_by TEXT NOT NULL, decided_at REAL8, why TEXT NOT NULL,
        FOREIGN KEY (conversation, call_id) REFERENCES ferrule_call (conversation, id))""",
    "CREATE INDEX IF NOT EXISTS ferrule_approval_call ON ferrule_approval (conversation, call_id)",
    """CREATE TABLE IF NOT EXISTS ferrule_audit (
        conversation TEXT NOT NULL, seq INT8 NOT NULL, at REAL8 NOT NULL, kind TEXT NOT NULL, call_id TEXT NOT NULL,
        approval TEXT NOT NULL, decided_by TEXT NOT NULL, epoch INT8 NOT NULL, detail TEXT NOT NULL,
        previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (conversation, seq))""",
    "CREATE INDEX IF NOT EXISTS ferrule_approval_tool ON ferrule_approval (tenant, tool, decided_at)",
    # Since version 2.
    """CREATE TABLE IF NOT EXISTS ferrule_response (
        id TEXT PRIMARY KEY, conversation TEXT NOT NULL REFERENCES ferrule_conversation (id), tenant TEXT NOT NULL,
        principal TEXT NOT NULL, status TEXT NOT NULL, model TEXT NOT NULL, created REAL8 NOT NULL,
        reach INT8 NOT NULL, cancelled INT8 NOT NULL, request TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS ferrule_response_conversation ON ferrule_response (conversation)",
    """CREATE TABLE IF NOT EXISTS ferrule_response_event (
        response TEXT NOT NULL REFERENCES ferrule_response (id), seq INT8 NOT NULL, data TEXT NOT NULL,
        PRIMARY KEY (response, seq))""",
    # Since version 3. A definition and a set of them are stored once, however often they are offered.
    """CREATE TABLE IF NOT EXISTS ferrule_definition (
        fingerprint TEXT PRIMARY KEY, tool TEXT NOT NULL, description TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS ferrule_offer (
        id TEXT NOT NULL, fingerprint TEXT NOT NULL REFERENCES ferrule_definition (fingerprint),
        PRIMARY KEY (id, fingerprint))""",
    """CREATE TABLE IF NOT EXISTS ferrule_selection (
        conversation TEXT NOT NULL REFERENCES ferrule_conversation (id), place TEXT NOT NULL, tenant TEXT NOT NULL,
        principal TEXT NOT NULL, at REAL8 NOT NULL, model TEXT NOT NULL, offer TEXT NOT NULL, demanded TEXT NOT NULL,
        is_required INT8 NOT NULL, is_unanswered INT8 NOT NULL, PRIMARY KEY (conversation, place))""",
    "CREATE INDEX IF NOT EXISTS ferrule_selection_tenant ON ferrule_selection (tenant, at)",
    """CREATE TABLE IF NOT EXISTS ferrule_pick (
        conversation TEXT NOT NULL, selection TEXT NOT NULL, number INT8 NOT NULL, fingerprint TEXT NOT NULL,
        call_id TEXT NOT NULL, fate TEXT NOT NULL, wrote TEXT NOT NULL, is_retried INT8 NOT NULL,
        is_repeated INT8 NOT NULL, PRIMARY KEY (conversation, selection, number))""",
    # Since version 4. `answer` is the conversation or the stored response that answers the request.
    """CREATE TABLE IF NOT EXISTS ferrule_request (
        answer TEXT PRIMARY KEY, tenant TEXT NOT NULL, principal TEXT NOT NULL, api TEXT NOT NULL,
        body_sha256 TEXT NOT NULL, idempotency_key TEXT NOT NULL, begun_at REAL8 NOT NULL, request TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS ferrule_request_key ON ferrule_request "
    "(tenant, principal, api, idempotency_key) WHERE idempotency_key <> ''",
    "CREATE INDEX IF NOT EXISTS ferrule_request_body ON ferrule_request (body_sha256, begun_at)",
    # Approvals that one person may give have no row here.
    """CREATE TABLE IF NOT EXISTS ferrule_approval_terms (
        approval TEXT PRIMARY KEY REFERENCES ferrule_approval (id), approvers INT8 NOT NULL, four_eyes INT8 NOT NULL,
        changes INT8 NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS ferrule_continuation (
        conversation TEXT PRIMARY KEY REFERENCES ferrule_conversation (id), tenant TEXT NOT NULL,
        principal TEXT NOT NULL, generation INT8 NOT NULL, due_at REAL8 NOT NULL, attempts INT8 NOT NULL,
        status TEXT NOT NULL, error TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS ferrule_continuation_due ON ferrule_continuation (due_at) WHERE status = 'due'",
    """CREATE TABLE IF NOT EXISTS ferrule_delivery (
        id TEXT PRIMARY KEY, conversation TEXT NOT NULL, body TEXT NOT NULL, created REAL8 NOT NULL,
        due_at REAL8 NOT NULL, attempts INT8 NOT NULL, status TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS ferrule_delivery_due ON ferrule_delivery (due_at) WHERE status = 'due'",
    # Calls without an id whose caller has not got the outcome yet.
    """CREATE TABLE IF NOT EXISTS ferrule_uncollected (
        conversation TEXT NOT NULL, call_id TEXT NOT NULL, PRIMARY KEY (conversation, call_id))""",
    """CREATE TABLE IF NOT EXISTS ferrule_vote (
        approval TEXT NOT NULL REFERENCES ferrule_approval (id), voter TEXT NOT NULL, binding TEXT NOT NULL,
        at REAL8 NOT NULL, PRIMARY KEY (approval, voter, binding))""",
    # Since version 5. Written after the fact and for people: no other table refers to these, and they refer to none.
    """CREATE TABLE IF NOT EXISTS ferrule_trace (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, principal TEXT NOT NULL, began_at REAL8 NOT NULL,
        changed_at REAL8 NOT NULL, status TEXT NOT NULL, model TEXT NOT NULL, error TEXT NOT NULL,
        title TEXT NOT NULL, request_count INT8 NOT NULL, error_count INT8 NOT NULL, prompt_tokens INT8 NOT NULL,
        completion_tokens INT8 NOT NULL, cost REAL8)""",
    "CREATE INDEX IF NOT EXISTS ferrule_trace_tenant ON ferrule_trace (tenant, began_at, id)",
    "CREATE INDEX IF NOT EXISTS ferrule_trace_changed ON ferrule_trace (changed_at)",
    """CREATE TABLE IF NOT EXISTS ferrule_traced_request (
        id TEXT PRIMARY KEY, trace TEXT NOT NULL, tenant TEXT NOT NULL, principal TEXT NOT NULL, at REAL8 NOT NULL,
        api TEXT NOT NULL, request_id TEXT NOT NULL, seconds REAL8, status TEXT NOT NULL, model TEXT NOT NULL,
        finish TEXT NOT NULL, error TEXT NOT NULL, error_status INT8 NOT NULL, error_message TEXT NOT NULL,
        error_detail TEXT NOT NULL, prompt_tokens INT8 NOT NULL, completion_tokens INT8 NOT NULL, cost REAL8,
        tools TEXT NOT NULL, conversation TEXT NOT NULL, messages TEXT NOT NULL, history_key TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS ferrule_traced_request_trace ON ferrule_traced_request (trace, at)",
    "CREATE INDEX IF NOT EXISTS ferrule_traced_request_conversation ON ferrule_traced_request (conversation) "
    "WHERE conversation <> ''",
    "CREATE INDEX IF NOT EXISTS ferrule_traced_request_history ON ferrule_traced_request (history_key, at) "
    "WHERE history_key <> ''",
    """CREATE TABLE IF NOT EXISTS ferrule_trace_tool (
        trace TEXT NOT NULL, tool TEXT NOT NULL, PRIMARY KEY (trace, tool))""",
    # Since version 6. A message is written once. `born` is that of its conversation.
    """CREATE TABLE IF NOT EXISTS ferrule_message (
        born INT8 NOT NULL, conversation TEXT NOT NULL, n INT8 NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (conversation, n, born))""",
    # Events that were written together: `many`, from the number `first`, each in a line of `data`.
    """CREATE TABLE IF NOT EXISTS ferrule_event (
        born INT8 NOT NULL, response TEXT NOT NULL, first INT8 NOT NULL, many INT8 NOT NULL, data TEXT NOT NULL,
        PRIMARY KEY (response, first, born))""",
    lease_tables.TABLE,
    # A ledger over several databases: the number of this one, and where each tenant is.
    "CREATE TABLE IF NOT EXISTS ferrule_shard (id INT8 PRIMARY KEY, number INT8 NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ferrule_tenant (tenant TEXT PRIMARY KEY, shard INT8 NOT NULL)",
    # Since version 8. Of a key only its hash is stored.
    """CREATE TABLE IF NOT EXISTS ferrule_key (
        id TEXT PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, name TEXT NOT NULL, tenant TEXT NOT NULL,
        permissions TEXT NOT NULL, created_at REAL8 NOT NULL, created_by TEXT NOT NULL, expires_at REAL8,
        revoked_at REAL8, revoked_by TEXT NOT NULL, replaced_by TEXT NOT NULL, last_used_at REAL8)""",
    "CREATE INDEX IF NOT EXISTS ferrule_key_tenant ON ferrule_key (tenant, created_at, id)",
    # One row: a number that every change of a key raises.
    "CREATE TABLE IF NOT EXISTS ferrule_key_number (id INT8 PRIMARY KEY, number INT8 NOT NULL)",
    *credential_tables.TABLES,
)
# What the tables of earlier versions lack. Conversations that exist are filled in afterwards: see `upgrade`.
NEW_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "ferrule_conversation": {
        "messages": "INT8 NOT NULL DEFAULT 0",
        "opened_at": "REAL8 NOT NULL DEFAULT 0",
        "changed_at": "REAL8 NOT NULL DEFAULT 0",
        "title": "TEXT NOT NULL DEFAULT ''",
        "born": "INT8 NOT NULL DEFAULT 0",
        **retention_tables.CONVERSATION_COLUMNS,
    },
    "ferrule_audit": retention_tables.AUDIT_COLUMNS,
    # Since version 7.
    "ferrule_traced_request": {
        "cached_tokens": "INT8 NOT NULL DEFAULT 0",
        "prompt_prefix": "TEXT NOT NULL DEFAULT ''",
    },
}
_UNFINISHED = "('queued', 'in_progress')"


@dataclass(frozen=True, slots=True)
class Index:
    """An index that a ledger of an earlier version gets when it is opened, while other processes write to it."""

    name: str
    table: str
    columns: str
    replaces: str = ""
    """The index of an earlier version that is not needed after this one."""

    @property
    def text(self) -> str:
        return f"CREATE INDEX IF NOT EXISTS {self.name} ON {self.table} {self.columns}"


# A page is read from where the last one ended, in the order of an index. The columns after the id are only compared:
# so a page with few matches among many rows reads the index, and not the rows.
LATER_INDEXES = (
    Index(
        "ferrule_approval_listed",
        "ferrule_approval",
        "(tenant, state, requested_at, id, expires_at, principal, tool)",
        replaces="ferrule_approval_tenant",
    ),
    Index(
        "ferrule_approval_everywhere",
        "ferrule_approval",
        "(state, requested_at, id)",
        replaces="ferrule_approval_state",
    ),
    # The sweep looks only at responses that have not ended, which are few.
    Index(
        "ferrule_response_unfinished",
        "ferrule_response",
        f"(created, id) WHERE status IN {_UNFINISHED}",
        replaces="ferrule_response_status",
    ),
)
# Lists are by tenant and newest first.
INDEXES = (
    "CREATE INDEX IF NOT EXISTS ferrule_conversation_opened ON ferrule_conversation (tenant, opened_at, id)",
    "CREATE INDEX IF NOT EXISTS ferrule_conversation_principal "
    "ON ferrule_conversation (tenant, principal, opened_at, id)",
    "DROP INDEX IF EXISTS ferrule_conversation_tenant",
    "DROP INDEX IF EXISTS ferrule_audit_opened",
    *retention_tables.INDEXES,
)


# Its process renews the time of a running trace. One that was not renewed has lost its process.
TRACE_STATUS = "CASE WHEN t.status = 'running' AND t.changed_at < ? THEN 'interrupted' ELSE t.status END"
TRACE_VIEW = ", ".join(TRACE_STATUS if name == "status" else f"t.{name}" for name in TRACE.split(", "))
_WHERE = "(? = 1 OR s.principal = ?) AND s.at >= ?"
# Two statements instead of "? = '' OR": so a tenant's rows are found by the index, whatever other tenants store.
_TENANT_CONDITIONS = {"": "s.tenant = ?", "_everywhere": "? = ''"}
_FROM_PICKS = (
    "FROM ferrule_pick p JOIN ferrule_selection s ON s.conversation = p.conversation AND s.place = p.selection"
)
# The state of the last attempt, where the outcome of a call without side effects was lost: each retry appends a "~".
# Only such a call has further attempts, and to find them all calls of the conversation are read.
_FINAL_STATE = (
    "COALESCE((SELECT CASE WHEN f.state <> 'unknown' THEN f.state ELSE "
    "(SELECT k.state FROM ferrule_call k WHERE k.conversation = p.conversation "
    "AND RTRIM(k.id, '~') = p.call_id ORDER BY LENGTH(k.id) DESC LIMIT 1) END "
    "FROM ferrule_call f WHERE f.conversation = p.conversation AND f.id = p.call_id), '')"
)
# Sorted by the audit log, because ids do not sort as numbers do. Searched only if there is a call at all.
_FIRST_TOOL = (
    "CASE WHEN EXISTS (SELECT 1 FROM ferrule_call k WHERE k.conversation = t.id) THEN "
    "(SELECT k.tool FROM ferrule_audit p JOIN ferrule_call k ON k.conversation = p.conversation AND k.id = p.call_id "
    "WHERE p.conversation = t.id AND p.born = 0 AND p.kind = 'proposed' ORDER BY p.seq LIMIT 1) END"
)


# Whether anything of a tenant is in this database. It has no placement if it was there before the others.
_HAS_ROWS = " OR ".join(
    f"EXISTS (SELECT 1 FROM ferrule_{table} WHERE tenant = ?)" for table in ("conversation", "trace")
)


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' for _ in columns.split(','))})"


# The columns that a page of approvals may be restricted to, in the order of the values.
APPROVAL_FILTERS = ("tool", "principal", "conversation")
# Further conditions on approvals in a state.
_APPROVAL_CONDITIONS = {
    "": "",
    "_live": "AND expires_at > ? ",
    "_expired": "AND expires_at <= ? ",
    "_decided": "AND decided_at IS NOT NULL ",
}
_ORDERS = {"": (">", ""), "_newest": ("<", " DESC")}


def approval_page_name(condition: str, filters: Sequence[str], *, is_newest_first: bool) -> str:
    """Return the name of the statement for a page of a tenant's approvals in one state."""
    order = "_newest" if is_newest_first else ""
    return "_".join([f"approvals_of{condition}{order}", *filters])


def _approval_pages() -> dict[str, str]:
    """Return a statement for each kind of page: one with every condition made optional would use no index."""
    pages: dict[str, str] = {}
    counts = range(len(APPROVAL_FILTERS) + 1)
    choices = [chosen for count in counts for chosen in combinations(APPROVAL_FILTERS, count)]
    for (more, condition), (order, (side, way)) in product(_APPROVAL_CONDITIONS.items(), _ORDERS.items()):
        for filters in choices:
            name = approval_page_name(more, filters, is_newest_first=bool(order))
            pages[name] = (
                f"SELECT {APPROVAL_VIEW} FROM ferrule_approval WHERE tenant = ? AND state = ? {condition}"
                f"{''.join(f'AND {column} = ? ' for column in filters)}AND (requested_at, id) {side} (?, ?) "
                f"ORDER BY requested_at{way}, id{way} LIMIT ?"
            )
    return pages


def _statistics(suffix: str, whose: str) -> dict[str, str]:
    """Return the statements for tool statistics. Their first value is the tenant, or empty."""
    where = f"{whose} AND {_WHERE}"
    statements = {
        "offers": "SELECT t.model, d.fingerprint, d.tool, d.description, SUM(t.many), MIN(t.first), MAX(t.last) "
        "FROM (SELECT s.model AS model, s.offer AS offer, COUNT(*) AS many, MIN(s.at) AS first, MAX(s.at) AS last "
        f"FROM ferrule_selection s WHERE {where} GROUP BY s.model, s.offer) t "
        "JOIN ferrule_offer o ON o.id = t.offer JOIN ferrule_definition d ON d.fingerprint = o.fingerprint "
        "WHERE ? = '' OR d.tool = ? GROUP BY t.model, d.fingerprint, d.tool, d.description",
        "picks": "SELECT model, fingerprint, fate, became, COUNT(*), SUM(is_retried), SUM(is_repeated) "
        "FROM (SELECT s.model AS model, p.fingerprint AS fingerprint, p.fate AS fate, p.is_retried AS is_retried, "
        f"p.is_repeated AS is_repeated, {_FINAL_STATE} AS became {_FROM_PICKS} WHERE {where}) t "
        "GROUP BY model, fingerprint, fate, became",
        "demands": "SELECT s.model, s.demanded, COUNT(*), SUM(s.is_unanswered) FROM ferrule_selection s "
        f"WHERE {where} AND s.is_required = 1 GROUP BY s.model, s.demanded",
        "misnamings": f"SELECT s.model, p.fingerprint, p.wrote, COUNT(*) {_FROM_PICKS} WHERE {where} "
        "AND p.fate = 'not_offered' GROUP BY s.model, p.fingerprint, p.wrote ORDER BY COUNT(*) DESC, p.wrote LIMIT ?",
    }
    return {f"{name}_counted{suffix}": text for name, text in statements.items()}


# Tool usage by week, of a tenant's newest replies: a bounded number, because it is read again and again. Replies that
# offered the same tools are one group. A set may hold thousands of tools, so only as many of the newest groups are kept
# as have so many tools together; the others' calls do not count either.
_KEPT_REPLIES = (
    "WITH recent AS (SELECT s.conversation AS conversation, s.place AS place, s.at AS at, s.offer AS offer, "
    "ROUND(s.at / 604800.0) AS week FROM ferrule_selection s "
    "WHERE s.tenant = ? AND s.at >= ? ORDER BY s.at DESC LIMIT ?), "
    "newest AS (SELECT r.offer AS offer, r.week AS week, COUNT(*) AS many, MAX(r.at) AS last FROM recent r "
    "GROUP BY r.offer, r.week ORDER BY MAX(r.at) DESC, r.offer LIMIT ?), "
    "sized AS (SELECT n.offer AS offer, n.week AS week, n.many AS many, n.last AS last, "
    "(SELECT COUNT(*) FROM ferrule_offer o WHERE o.id = n.offer) AS size FROM newest n), "
    "summed AS (SELECT z.offer AS offer, z.week AS week, z.many AS many, z.size AS size, "
    "SUM(z.size) OVER (ORDER BY z.last DESC, z.offer, z.week ROWS UNBOUNDED PRECEDING) AS tools FROM sized z), "
    "kept AS (SELECT t.offer AS offer, t.week AS week, t.many AS many FROM summed t WHERE t.tools - t.size < ?) "
)
_USES: Mapping[str, str] = {
    "loads_by_week": f"{_KEPT_REPLIES}SELECT d.tool, t.week, SUM(t.many) "
    "FROM kept t JOIN ferrule_offer o ON o.id = t.offer "
    "JOIN ferrule_definition d ON d.fingerprint = o.fingerprint GROUP BY d.tool, t.week",
    "picks_by_week": f"{_KEPT_REPLIES}SELECT d.tool, t.week, t.fate, t.became, COUNT(*) "
    f"FROM (SELECT p.fingerprint AS fingerprint, r.week AS week, p.fate AS fate, {_FINAL_STATE} AS became "
    "FROM kept g JOIN recent r ON r.offer = g.offer AND r.week = g.week "
    "JOIN ferrule_pick p ON p.conversation = r.conversation AND p.selection = r.place) t "
    "JOIN ferrule_definition d ON d.fingerprint = t.fingerprint GROUP BY d.tool, t.week, t.fate, t.became",
}


# How long calls took: the time between two rows of the audit log. Each row is read once, and a bounded number: the
# newest conversations until they have so many rows, and of a longer one only its newest. No join is by call within a
# conversation's log, because no index has it.
_DURATIONS: Mapping[str, str] = {
    f"call_seconds{suffix}": "SELECT k.tool, t.ended_at - t.started_at FROM ("
    "SELECT a.conversation AS conversation, a.call_id AS call_id, "
    "MAX(CASE WHEN a.kind = 'started' AND a.at >= ? THEN a.at END) AS started_at, "
    "MAX(CASE WHEN a.kind <> 'started' THEN a.at END) AS ended_at FROM ("
    "SELECT n.id AS id, n.born AS born, n.audit_seq AS audit_seq, "
    "SUM(n.audit_seq) OVER (ORDER BY n.opened_at DESC, n.id ROWS UNBOUNDED PRECEDING) AS row_count "
    "FROM (SELECT c.id AS id, c.born AS born, c.audit_seq AS audit_seq, c.opened_at AS opened_at "
    f"FROM ferrule_conversation c WHERE {whose} AND (? = 1 OR c.principal = ?) AND c.changed_at >= ? "
    "ORDER BY c.opened_at DESC, c.id LIMIT ?) n) r "
    "JOIN ferrule_audit a ON a.conversation = r.id AND a.born IN (0, r.born) AND a.seq > r.audit_seq - ? "
    "WHERE r.row_count - r.audit_seq < ? AND a.kind IN ('started', 'done', 'failed') "
    "GROUP BY a.conversation, a.call_id) t "
    "JOIN ferrule_call k ON k.conversation = t.conversation AND k.id = t.call_id "
    "WHERE t.started_at IS NOT NULL AND t.ended_at IS NOT NULL"
    for suffix, whose in (("", "c.tenant = ?"), ("_everywhere", "? = ''"))
}


# Every change is conditional on the state that it starts from. The number of changed rows tells whether it succeeded.
STATEMENTS: Mapping[str, str] = {
    "note_version": "INSERT INTO ferrule_ledger (version) VALUES (?) ON CONFLICT (version) DO NOTHING",
    "raise_version": "UPDATE ferrule_ledger SET version = ? WHERE version = ?",
    "versions": "SELECT version FROM ferrule_ledger ORDER BY version",
    # Conversations. What changes one is a step: see `step_sql`.
    "conversation_head": f"SELECT {CONVERSATION_HEAD} FROM ferrule_conversation WHERE id = ?",
    "state": "SELECT version, state FROM ferrule_conversation WHERE id = ?",
    "messages": "SELECT body FROM ferrule_message WHERE born = ? AND conversation = ? AND n < ? ORDER BY n",
    **lease_tables.STATEMENTS,
    "opened_at": "SELECT opened_at FROM ferrule_conversation WHERE id = ? AND tenant = ?",
    # For the upgrade: conversations of an earlier version, which have no time yet. All their audit rows have `born` 0.
    "unfilled": "SELECT c.id, a.at, z.at, SUBSTR(c.state, 1, ?), "
    f"{_FIRST_TOOL.replace('t.id', 'c.id')} FROM ferrule_conversation c "
    "JOIN ferrule_audit a ON a.conversation = c.id AND a.seq = 1 AND a.born = 0 "
    "JOIN ferrule_audit z ON z.conversation = c.id AND z.seq = c.audit_seq AND z.born = 0 "
    "WHERE c.opened_at = 0 AND c.id > ? ORDER BY c.id LIMIT ?",
    # A conversation whose messages are rows already keeps its `born`: they are found by it.
    "fill": "UPDATE ferrule_conversation SET opened_at = ?, changed_at = ?, title = ?, "
    "born = CASE WHEN messages = 0 THEN ? ELSE born END WHERE id = ? AND opened_at = 0",
    # Calls.
    "call": f"SELECT {CALL} FROM ferrule_call WHERE conversation = ? AND id = ?",
    "left_started": f"SELECT {CALL} FROM ferrule_call WHERE conversation = ? AND state = 'started' AND epoch < ? "
    "ORDER BY id",
    "calls": f"SELECT {CALL} FROM ferrule_call WHERE conversation = ? ORDER BY id",
    # Approvals.
    "approval": f"SELECT {APPROVAL_VIEW} FROM ferrule_approval WHERE id = ?",
    "approval_cursor": "SELECT requested_at, tenant FROM ferrule_approval WHERE id = ?",
    "approvals_in": f"SELECT {APPROVAL_VIEW} FROM ferrule_approval WHERE state = ? AND (requested_at, id) > (?, ?) "
    "ORDER BY requested_at, id LIMIT ?",
    "count_approvals": "SELECT COUNT(*) FROM ferrule_approval WHERE state = ?",
    # A replaced approval sorts before the one that replaced it, even if both have the same time.
    "approvals_for": f"SELECT {APPROVAL_VIEW} FROM ferrule_approval WHERE conversation = ? AND call_id = ? "
    "ORDER BY CASE WHEN state = 'replaced' THEN 0 ELSE 1 END, requested_at",
    **_approval_pages(),
    "approvals_in_conversation": f"SELECT {APPROVAL_VIEW} FROM ferrule_approval WHERE conversation = ? "
    "ORDER BY requested_at, id",
    # An approval that expired after it was given still counts as given.
    "approved_before": f"SELECT {APPROVAL_VIEW} FROM ferrule_approval WHERE tenant = ? AND tool = ? AND decided_at < ? "
    "AND state <> 'denied' ORDER BY decided_at DESC, id DESC LIMIT 1",
    # Approvals by several people. A vote counts for the arguments that it was given for.
    "terms": "SELECT approvers, four_eyes, changes FROM ferrule_approval_terms WHERE approval = ?",
    "votes_for": "SELECT voter, at FROM ferrule_vote WHERE approval = ? AND binding = ?",
    "votes": "SELECT v.voter, v.at FROM ferrule_vote v JOIN ferrule_approval a ON a.id = v.approval "
    "WHERE v.approval = ? AND v.binding = a.binding ORDER BY v.at, v.voter",
    # Continuations and webhooks. A response that has not ended continues by itself.
    "continuation": f"SELECT {CONTINUATION} FROM ferrule_continuation WHERE conversation = ?",
    "due_continuations": f"SELECT {', '.join(f'n.{name}' for name in CONTINUATION.split(', '))} "
    "FROM ferrule_continuation n JOIN ferrule_conversation c ON c.id = n.conversation "
    f"WHERE n.status = 'due' AND n.due_at <= ? AND {IS_FREE} "
    "AND NOT EXISTS (SELECT 1 FROM ferrule_response r "
    f"WHERE r.conversation = c.id AND r.status IN {_UNFINISHED}) ORDER BY n.due_at LIMIT ?",
    "end_continuation": "UPDATE ferrule_continuation SET status = ?, error = ? WHERE conversation = ? "
    "AND generation = ? AND status = 'due'",
    "postpone_continuation": "UPDATE ferrule_continuation SET due_at = ?, attempts = attempts + 1, error = ? "
    "WHERE conversation = ? AND generation = ? AND status = 'due'",
    "last_response_request": "SELECT request FROM ferrule_response WHERE conversation = ? "
    "ORDER BY created DESC, id DESC LIMIT 1",
    "add_delivery": "INSERT INTO ferrule_delivery (id, conversation, body, created, due_at, attempts, status) "
    "VALUES (?, ?, ?, ?, ?, 0, 'due') ON CONFLICT (id) DO NOTHING",
    "due_deliveries": "SELECT id, conversation, body, created, due_at, attempts, status FROM ferrule_delivery "
    "WHERE status = 'due' AND due_at <= ? ORDER BY due_at LIMIT ?",
    "claim_delivery": "UPDATE ferrule_delivery SET due_at = ?, attempts = attempts + 1 "
    "WHERE id = ? AND attempts = ? AND status = 'due'",
    "postpone_delivery": "UPDATE ferrule_delivery SET due_at = ? WHERE id = ? AND status = 'due'",
    "end_delivery": "UPDATE ferrule_delivery SET status = ? WHERE id = ? AND status = 'due'",
    "add_uncollected": _insert("ferrule_uncollected", "conversation, call_id")
    + " ON CONFLICT (conversation, call_id) DO NOTHING",
    "uncollected": "SELECT 1 FROM ferrule_uncollected WHERE conversation = ? AND call_id = ?",
    "delete_uncollected": "DELETE FROM ferrule_uncollected WHERE conversation = ? AND call_id = ?",
    # Responses.
    "response": f"SELECT {RESPONSE} FROM ferrule_response WHERE id = ?",
    "responses_in": "SELECT id FROM ferrule_response WHERE conversation = ? ORDER BY id",
    "unfinished_responses": f"SELECT {', '.join(f'r.{name}' for name in RESPONSE.split(', '))} "
    "FROM ferrule_response r JOIN ferrule_conversation c ON c.id = r.conversation "
    f"WHERE r.status IN {_UNFINISHED} AND {IS_FREE} ORDER BY r.created, r.id LIMIT ?",
    # Events of an earlier release are rows of their own; those after them are in `ferrule_event`.
    "last_event": "SELECT COALESCE("
    "(SELECT e.first + e.many - 1 FROM ferrule_event e WHERE e.response = ? ORDER BY e.first DESC LIMIT 1), "
    "(SELECT MAX(o.seq) FROM ferrule_response_event o WHERE o.response = ?), -1)",
    "old_events_after": "SELECT data FROM ferrule_response_event WHERE response = ? AND seq > ? ORDER BY seq LIMIT ?",
    # From the batch that contains the event, or the first after it.
    "events_after": "SELECT e.first, e.data FROM ferrule_event e WHERE e.response = ? AND e.first >= COALESCE("
    "(SELECT MAX(x.first) FROM ferrule_event x WHERE x.response = ? AND x.first <= ?), 0) ORDER BY e.first LIMIT ?",
    # Requests.
    "request": f"SELECT {REQUEST} FROM ferrule_request WHERE answer = ?",
    "add_request": _insert("ferrule_request", REQUEST) + " ON CONFLICT DO NOTHING",
    "move_request": "UPDATE ferrule_request SET answer = ? WHERE answer = ?",
    "forget_key": "DELETE FROM ferrule_request WHERE tenant = ? AND principal = ? AND api = ? AND idempotency_key = ? "
    "AND begun_at < ?",
    "request_by_key": f"SELECT {REQUEST} FROM ferrule_request WHERE tenant = ? AND principal = ? AND api = ? "
    "AND idempotency_key = ?",
    # With the end of the lease and the time of the last change of the conversation that answers it.
    "request_by_body": f"SELECT {', '.join(f'r.{name}' for name in REQUEST.split(', '))}, "
    f"COALESCE({HELD_UNTIL}, 0.0), COALESCE(c.changed_at, r.begun_at) FROM ferrule_request r "
    "LEFT JOIN ferrule_response p ON p.id = r.answer "
    "LEFT JOIN ferrule_conversation c ON c.id = COALESCE(p.conversation, r.answer) "
    "WHERE r.body_sha256 = ? AND r.tenant = ? AND r.principal = ? AND r.api = ? "
    "ORDER BY r.begun_at DESC, r.answer DESC LIMIT 1",
    # Tool usage.
    "has_offer": "SELECT 1 FROM ferrule_offer WHERE id = ? LIMIT 1",
    "add_definition": _insert("ferrule_definition", "fingerprint, tool, description")
    + " ON CONFLICT (fingerprint) DO NOTHING",
    "add_offer": _insert("ferrule_offer", "id, fingerprint") + " ON CONFLICT (id, fingerprint) DO NOTHING",
    **_USES,
    **_DURATIONS,
    **{name: text for suffix, whose in _TENANT_CONDITIONS.items() for name, text in _statistics(suffix, whose).items()},
    # Traces. What a request adds is summed up in its trace, so that a list need not read the requests.
    # In one statement: the request itself, if it was recorded when it began, and the traces that it may belong to.
    "find_trace": "SELECT (SELECT r.status FROM ferrule_traced_request r WHERE r.id = ?), "
    "(SELECT r.trace FROM ferrule_traced_request r WHERE r.id = ?), "
    "(SELECT r.trace FROM ferrule_traced_request r WHERE r.conversation = ? AND r.conversation <> '' AND r.tenant = ? "
    "LIMIT 1), "
    + ", ".join(
        [
            "(SELECT r.trace FROM ferrule_traced_request r WHERE r.history_key = ? AND r.history_key <> '' "
            "AND r.at >= ? AND r.tenant = ? AND r.principal = ? ORDER BY r.at DESC LIMIT 1)"
        ]
        * MAX_EARLIER_KEYS
    ),
    "set_trace": _insert("ferrule_trace", TRACE) + " ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at, "
    "status = excluded.status, error = excluded.error, "
    "model = CASE WHEN excluded.model = '' THEN ferrule_trace.model ELSE excluded.model END, "
    "title = CASE WHEN ferrule_trace.title = '' THEN excluded.title ELSE ferrule_trace.title END, "
    "cost = CASE WHEN excluded.cost IS NULL THEN ferrule_trace.cost "
    "ELSE COALESCE(ferrule_trace.cost, 0.0) + excluded.cost END, "
    + ", ".join(
        f"{name} = ferrule_trace.{name} + excluded.{name}"
        for name in ("request_count", "error_count", "prompt_tokens", "completion_tokens")
    ),
    "set_traced_request": _insert("ferrule_traced_request", TRACED_REQUEST)
    + " ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in TRACED_REQUEST.split(", ")[7:]),
    "add_trace_tool": _insert("ferrule_trace_tool", "trace, tool") + " ON CONFLICT (trace, tool) DO NOTHING",
    "touch_trace": "UPDATE ferrule_trace SET changed_at = ? "
    "WHERE id = (SELECT r.trace FROM ferrule_traced_request r WHERE r.id = ?)",
    "trace_began_at": "SELECT began_at FROM ferrule_trace WHERE id = ? AND tenant = ?",
    "trace": f"SELECT {TRACE_VIEW} FROM ferrule_trace t WHERE t.id = ? AND t.tenant = ?",
    "trace_of_conversation": f"SELECT {TRACE_VIEW} FROM ferrule_trace t WHERE t.id = ("
    "SELECT r.trace FROM ferrule_traced_request r WHERE r.conversation = ? AND r.conversation <> '' LIMIT 1) "
    "AND t.tenant = ?",
    "traced_requests": "SELECT "
    + ", ".join(name for name in TRACED_REQUEST.split(", ") if name not in ("trace", "history_key"))
    + " FROM ferrule_traced_request WHERE trace = ? ORDER BY at, id",
    "old_traces": "SELECT id FROM ferrule_trace WHERE changed_at < ? ORDER BY changed_at LIMIT ?",
    "forget_traced_requests": "DELETE FROM ferrule_traced_request WHERE trace = ?",
    "forget_trace_tools": "DELETE FROM ferrule_trace_tool WHERE trace = ?",
    "forget_trace": "DELETE FROM ferrule_trace WHERE id = ?",
    **retention_tables.STATEMENTS,
    # Keys.
    "key_number": "SELECT number FROM ferrule_key_number",
    "raise_key_number": "INSERT INTO ferrule_key_number (id, number) VALUES (0, 1) "
    "ON CONFLICT (id) DO UPDATE SET number = ferrule_key_number.number + 1",
    "key_tenants": "SELECT (SELECT min(tenant) FROM ferrule_key), (SELECT max(tenant) FROM ferrule_key)",
    "key": f"SELECT {KEY} FROM ferrule_key WHERE id = ?",
    "usable_keys": f"SELECT {KEY} FROM ferrule_key WHERE (revoked_at IS NULL OR revoked_at > ?) "
    "AND (expires_at IS NULL OR expires_at > ?) ORDER BY created_at, id",
    "keys_of": f"SELECT {KEY} FROM ferrule_key WHERE tenant = ? AND (created_at, id) < (?, ?) "
    "ORDER BY created_at DESC, id DESC LIMIT ?",
    "all_keys": f"SELECT {KEY} FROM ferrule_key WHERE (created_at, id) < (?, ?) "
    "ORDER BY created_at DESC, id DESC LIMIT ?",
    "add_key": _insert("ferrule_key", KEY) + " ON CONFLICT DO NOTHING",
    "replace_key": "UPDATE ferrule_key SET replaced_by = ?, expires_at = ? "
    "WHERE id = ? AND revoked_at IS NULL AND replaced_by = '' AND (expires_at IS NULL OR expires_at > ?)",
    "revoke_key": "UPDATE ferrule_key SET revoked_at = ?, revoked_by = ? WHERE id = ? AND revoked_at IS NULL",
    "note_key_use": "UPDATE ferrule_key SET last_used_at = ? "
    "WHERE id = ? AND (last_used_at IS NULL OR last_used_at < ?)",
    **credential_tables.STATEMENTS,
    # The audit log.
    "head": "SELECT audit_seq, audit_head FROM ferrule_conversation WHERE id = ?",
    # See `placements`.
    **{
        f"has_{kind}": f"SELECT 1 FROM ferrule_{kind} WHERE {key} = ?"
        for kind, key in {
            "conversation": "id",
            "approval": "id",
            "response": "id",
            "request": "answer",
            "delivery": "id",
        }.items()
    },
    "take_number": "INSERT INTO ferrule_shard (id, number) VALUES (0, ?) ON CONFLICT (id) DO NOTHING",
    "number": "SELECT number FROM ferrule_shard",
    "placement": f"SELECT (SELECT shard FROM ferrule_tenant WHERE tenant = ?), CASE WHEN {_HAS_ROWS} THEN 1 ELSE 0 END",
    "place_tenant": f"INSERT INTO ferrule_tenant (tenant, shard) SELECT ?, CASE WHEN {_HAS_ROWS} THEN 0 ELSE ? END "
    "WHERE 1 = 1 ON CONFLICT (tenant) DO NOTHING",
    # In the partition of the conversation, and in the one of rows that an earlier version has written.
    "audit": f"SELECT {AUDIT} FROM ferrule_audit WHERE conversation = ? "
    "AND born IN (0, (SELECT born FROM ferrule_conversation WHERE id = ?)) ORDER BY seq",
    "audit_anywhere": f"SELECT {AUDIT} FROM ferrule_audit WHERE conversation = ? ORDER BY seq",
}
