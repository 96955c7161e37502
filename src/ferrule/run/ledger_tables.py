"""The ledger's tables and statements, once for every database. A dialect says only how types and marks are spelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 1

CONVERSATION = "id, tenant, principal, owner, epoch, lease_until, version, state"
CALL = (
    "conversation, id, tool, tool_fingerprint, arguments, arguments_sha256, binding, side_effects, needs_leave, "
    "state, epoch, outcome"
)
APPROVAL = (
    "id, conversation, call_id, tenant, principal, tool, tool_fingerprint, arguments, arguments_sha256, binding, "
    "state, requested_at, expires_at, decided_by, decided_at, why"
)
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
)


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' for _ in columns.split(','))})"


# Every change is conditional on the state that it starts from: how many rows it changed is the answer.
STATEMENTS: Mapping[str, str] = {
    "note_version": "INSERT INTO ferrule_ledger (version) VALUES (?) ON CONFLICT (version) DO NOTHING",
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
    "add_approval": _insert("ferrule_approval", APPROVAL),
    "replace_approvals": "UPDATE ferrule_approval SET state = 'replaced' WHERE conversation = ? AND call_id = ? "
    "AND state IN ('pending', 'approved') AND expires_at <= ?",
    "decide": "UPDATE ferrule_approval SET state = ?, decided_by = ?, decided_at = ?, why = ?, arguments = ?, "
    "arguments_sha256 = ?, binding = ? WHERE id = ? AND state = 'pending' AND expires_at > ?",
    "redeem": "UPDATE ferrule_approval SET state = 'redeemed' WHERE id = ? AND binding = ? AND state = 'approved' "
    "AND expires_at > ?",
    # The audit.
    "head": "SELECT audit_seq, audit_head FROM ferrule_conversation WHERE id = ?",
    "move_head": "UPDATE ferrule_conversation SET audit_seq = ?, audit_head = ? WHERE id = ? AND audit_seq = ?",
    "add_audit": _insert("ferrule_audit", AUDIT),
    "audit": f"SELECT {AUDIT} FROM ferrule_audit WHERE conversation = ? ORDER BY seq",
}
