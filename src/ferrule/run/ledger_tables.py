"""The ledger's tables and statements, once for every database. A dialect says only how types and marks are spelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 2
# Each version only adds tables to the one before: a ledger of these becomes one of ours by making what is missing.
EARLIER = (1,)

CONVERSATION = "id, tenant, principal, owner, epoch, lease_until, version, state"
CALL = (
    "conversation, id, tool, tool_fingerprint, arguments, arguments_sha256, binding, side_effects, needs_leave, "
    "state, epoch, outcome"
)
APPROVAL = (
    "id, conversation, call_id, tenant, principal, tool, tool_fingerprint, arguments, arguments_sha256, binding, "
    "state, requested_at, expires_at, decided_by, decided_at, why"
)
RESPONSE = "id, conversation, tenant, principal, status, model, created, reach, cancelled, request"
AUDIT = "conversation, seq, at, kind, call_id, approval, decided_by, epoch, detail, previous, hash"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a database spells what databases spell differently."""

    mark: str
    integer: str
    real: str
    blob: str
    for_update: str
    """Keeps a row that was read from changing until the transaction ends."""

    def tables(self) -> list[str]:
        return [
            text.replace("INT8", self.integer).replace("REAL8", self.real).replace("BYTES", self.blob)
            for text in TABLES
        ]

    def statements(self) -> dict[str, str]:
        return {
            name: text.replace("?", self.mark).replace(" FOR UPDATE", self.for_update)
            for name, text in STATEMENTS.items()
        }


TABLES = (
    "CREATE TABLE IF NOT EXISTS ferrule_ledger (version INT8 PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS ferrule_conversation (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, principal TEXT NOT NULL, owner TEXT NOT NULL, epoch INT8 NOT NULL,
        lease_until REAL8 NOT NULL, version INT8 NOT NULL, state TEXT NOT NULL,
        audit_seq INT8 NOT NULL, audit_head TEXT NOT NULL)""",
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
    "CREATE INDEX IF NOT EXISTS ferrule_approval_state ON ferrule_approval (state, requested_at)",
    "CREATE INDEX IF NOT EXISTS ferrule_approval_call ON ferrule_approval (conversation, call_id)",
    """CREATE TABLE IF NOT EXISTS ferrule_audit (
        conversation TEXT NOT NULL, seq INT8 NOT NULL, at REAL8 NOT NULL, kind TEXT NOT NULL, call_id TEXT NOT NULL,
        approval TEXT NOT NULL, decided_by TEXT NOT NULL, epoch INT8 NOT NULL, detail TEXT NOT NULL,
        previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (conversation, seq))""",
    # Lists are by tenant, and newest first: a conversation is as old as its first row of audit.
    "CREATE INDEX IF NOT EXISTS ferrule_conversation_tenant ON ferrule_conversation (tenant, principal)",
    "CREATE INDEX IF NOT EXISTS ferrule_audit_opened ON ferrule_audit (at, conversation) WHERE seq = 1",
    "CREATE INDEX IF NOT EXISTS ferrule_approval_tenant ON ferrule_approval (tenant, requested_at)",
    # Since version 2.
    """CREATE TABLE IF NOT EXISTS ferrule_response (
        id TEXT PRIMARY KEY, conversation TEXT NOT NULL REFERENCES ferrule_conversation (id), tenant TEXT NOT NULL,
        principal TEXT NOT NULL, status TEXT NOT NULL, model TEXT NOT NULL, created REAL8 NOT NULL,
        reach INT8 NOT NULL, cancelled INT8 NOT NULL, request TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS ferrule_response_status ON ferrule_response (status, created)",
    "CREATE INDEX IF NOT EXISTS ferrule_response_conversation ON ferrule_response (conversation)",
    """CREATE TABLE IF NOT EXISTS ferrule_response_event (
        response TEXT NOT NULL REFERENCES ferrule_response (id), seq INT8 NOT NULL, data TEXT NOT NULL,
        PRIMARY KEY (response, seq))""",
)


_UNFINISHED = "('queued', 'in_progress')"


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' for _ in columns.split(','))})"


# Every change is conditional on the state that it starts from: how many rows it changed is the answer.
STATEMENTS: Mapping[str, str] = {
    "note_version": "INSERT INTO ferrule_ledger (version) VALUES (?) ON CONFLICT (version) DO NOTHING",
    "raise_version": "UPDATE ferrule_ledger SET version = ? WHERE version = ?",
    "versions": "SELECT version FROM ferrule_ledger ORDER BY version",
    # Conversations. Reading one for update is the first thing that every change does: it puts them in a row.
    "conversation": f"SELECT {CONVERSATION} FROM ferrule_conversation WHERE id = ?",
    "lock_conversation": f"SELECT {CONVERSATION} FROM ferrule_conversation WHERE id = ? FOR UPDATE",
    "add_conversation": _insert("ferrule_conversation", f"{CONVERSATION}, audit_seq, audit_head")
    + " ON CONFLICT (id) DO NOTHING",
    "set_lease": "UPDATE ferrule_conversation SET lease_until = ? WHERE id = ? AND epoch = ?",
    "save": "UPDATE ferrule_conversation SET state = ?, version = version + 1 WHERE id = ? AND epoch = ?",
    "take_over": "UPDATE ferrule_conversation SET owner = ?, epoch = epoch + 1, lease_until = ? "
    "WHERE id = ? AND epoch = ? AND lease_until <= ?",
    "every_conversation": "SELECT id FROM ferrule_conversation UNION SELECT conversation FROM ferrule_audit ORDER BY 1",
    "opened_at": "SELECT a.at FROM ferrule_conversation c JOIN ferrule_audit a ON a.conversation = c.id AND a.seq = 1 "
    "WHERE c.id = ? AND c.tenant = ?",
    "conversations_of": "SELECT c.id, c.tenant, c.principal, c.version, c.lease_until, a.at, z.at "
    "FROM ferrule_audit a JOIN ferrule_conversation c ON c.id = a.conversation "
    "JOIN ferrule_audit z ON z.conversation = c.id AND z.seq = c.audit_seq "
    "WHERE a.seq = 1 AND c.tenant = ? AND (? = '' OR c.principal = ?) AND (a.at < ? OR (a.at = ? AND c.id < ?)) "
    "AND (? = '' OR LOWER(c.state) LIKE ? ESCAPE '!') "
    "AND (? = '' OR EXISTS (SELECT 1 FROM ferrule_call k WHERE k.conversation = c.id AND k.tool = ?)) "
    "ORDER BY a.at DESC, c.id DESC LIMIT ?",
    # Calls.
    "call": f"SELECT {CALL} FROM ferrule_call WHERE conversation = ? AND id = ?",
    "calls": f"SELECT {CALL} FROM ferrule_call WHERE conversation = ? ORDER BY id",
    "left_started": "SELECT id FROM ferrule_call WHERE conversation = ? AND state = 'started' AND epoch < ? "
    "ORDER BY id",
    "add_call": _insert("ferrule_call", CALL) + " ON CONFLICT (conversation, id) DO NOTHING",
    "start_proposed": "UPDATE ferrule_call SET state = 'started', epoch = ? WHERE conversation = ? AND id = ? "
    "AND binding = ? AND state = 'proposed' AND needs_leave = 0",
    "start_approved": "UPDATE ferrule_call SET state = 'started', epoch = ? WHERE conversation = ? AND id = ? "
    "AND binding = ? AND state = 'approved' AND needs_leave = 1",
    "move_call": "UPDATE ferrule_call SET state = ? WHERE conversation = ? AND id = ? AND state = ?",
    "end_call": "UPDATE ferrule_call SET state = ?, outcome = ? WHERE conversation = ? AND id = ? "
    "AND state = 'started' AND epoch = ?",
    "set_arguments": "UPDATE ferrule_call SET arguments = ?, arguments_sha256 = ?, binding = ? "
    "WHERE conversation = ? AND id = ? AND state = 'awaiting_approval'",
    # Approvals.
    "approval": f"SELECT {APPROVAL} FROM ferrule_approval WHERE id = ?",
    "approvals": f"SELECT {APPROVAL} FROM ferrule_approval ORDER BY requested_at, id",
    "approvals_in": f"SELECT {APPROVAL} FROM ferrule_approval WHERE state = ? ORDER BY requested_at, id",
    # One that was replaced is older than the one that replaced it, also where both were asked for in one moment.
    "approvals_for": f"SELECT {APPROVAL} FROM ferrule_approval WHERE conversation = ? AND call_id = ? "
    "ORDER BY CASE WHEN state = 'replaced' THEN 0 ELSE 1 END, requested_at",
    "approvals_of": f"SELECT {APPROVAL} FROM ferrule_approval WHERE tenant = ? AND (? = '' OR state = ?) "
    "ORDER BY requested_at, id",
    "approvals_in_conversation": f"SELECT {APPROVAL} FROM ferrule_approval WHERE conversation = ? "
    "ORDER BY requested_at, id",
    "add_approval": _insert("ferrule_approval", APPROVAL),
    "replace_approvals": "UPDATE ferrule_approval SET state = 'replaced' WHERE conversation = ? AND call_id = ? "
    "AND state IN ('pending', 'approved') AND expires_at <= ?",
    "decide": "UPDATE ferrule_approval SET state = ?, decided_by = ?, decided_at = ?, why = ?, arguments = ?, "
    "arguments_sha256 = ?, binding = ? WHERE id = ? AND state = 'pending' AND expires_at > ?",
    "redeem": "UPDATE ferrule_approval SET state = 'redeemed' WHERE id = ? AND binding = ? AND state = 'approved' "
    "AND expires_at > ?",
    # Responses.
    "response": f"SELECT {RESPONSE} FROM ferrule_response WHERE id = ?",
    "add_response": _insert("ferrule_response", RESPONSE) + " ON CONFLICT (id) DO NOTHING",
    "set_status": "UPDATE ferrule_response SET status = ?, reach = ? WHERE id = ? AND status IN " + _UNFINISHED,
    "ask_to_cancel": "UPDATE ferrule_response SET cancelled = 1 WHERE id = ? AND cancelled = 0 AND status IN "
    + _UNFINISHED,
    "delete_response": "DELETE FROM ferrule_response WHERE id = ?",
    "responses_in": "SELECT id FROM ferrule_response WHERE conversation = ? ORDER BY id",
    "unfinished_responses": f"SELECT {', '.join(f'r.{name}' for name in RESPONSE.split(', '))} "
    "FROM ferrule_response r JOIN ferrule_conversation c ON c.id = r.conversation "
    f"WHERE r.status IN {_UNFINISHED} AND c.lease_until <= ? ORDER BY r.created, r.id LIMIT ?",
    "last_event": "SELECT COALESCE(MAX(seq), -1) FROM ferrule_response_event WHERE response = ?",
    "add_event": _insert("ferrule_response_event", "response, seq, data"),
    "events_after": "SELECT data FROM ferrule_response_event WHERE response = ? AND seq > ? ORDER BY seq LIMIT ?",
    "delete_events": "DELETE FROM ferrule_response_event WHERE response = ?",
    # The audit.
    "head": "SELECT audit_seq, audit_head FROM ferrule_conversation WHERE id = ?",
    "move_head": "UPDATE ferrule_conversation SET audit_seq = ?, audit_head = ? WHERE id = ? AND audit_seq = ?",
    "add_audit": _insert("ferrule_audit", AUDIT),
    "audit": f"SELECT {AUDIT} FROM ferrule_audit WHERE conversation = ? ORDER BY seq",
}
