"""Columns, indexes and statements for removing what is old. `tables` merges them into its own.

A conversation that was removed leaves a stub: its row without tenant, principal, title and state. The stub holds the
head of the audit log, and keeps the id from being opened again. `pruned` is 0 for a conversation, and for a stub
1 while its messages wait for the partition of their week to be dropped, otherwise 2.

What is removed is described once, as statements about the conversations `{gone}`. In Postgres all of them are parts of
one statement. In SQLite they are statements of one transaction, in this order, and 1 marks what it removes.
"""

from __future__ import annotations

from collections.abc import Mapping

from ferrule.run.ledger.lease_tables import HELD_UNTIL

ENDLESS_LEASE = 1e300
"""The end of the lease on a stub: so every version of Ferrule refuses to open it."""

CONVERSATION_COLUMNS: Mapping[str, str] = {"pruned": "INT8 NOT NULL DEFAULT 0"}
# Earlier versions insert audit rows without it.
AUDIT_COLUMNS: Mapping[str, str] = {"born": "INT8 NOT NULL DEFAULT 0"}
# None of these columns changes in a step, so a step need not change these indexes.
INDEXES = (
    "CREATE INDEX IF NOT EXISTS ferrule_conversation_born ON ferrule_conversation (born, id) WHERE pruned = 0",
    "CREATE INDEX IF NOT EXISTS ferrule_conversation_pruned ON ferrule_conversation (born, id) WHERE pruned > 0",
    "CREATE INDEX IF NOT EXISTS ferrule_conversation_unswept ON ferrule_conversation (born, id) WHERE pruned = 1",
    "CREATE INDEX IF NOT EXISTS ferrule_delivery_conversation ON ferrule_delivery (conversation)",
    "CREATE INDEX IF NOT EXISTS ferrule_request_blank ON ferrule_request (begun_at) WHERE request = 'null'",
)

_APPROVALS = "(SELECT a.id FROM ferrule_approval a WHERE a.conversation IN {gone})"
_RESPONSES = "(SELECT p.id FROM ferrule_response p WHERE p.conversation IN {gone})"
_ANSWERS = "(SELECT p.id FROM ferrule_response p WHERE p.conversation IN {gone} UNION ALL SELECT g.id FROM {gone} g)"
# Traces in which no other request was recorded.
_TRACES = (
    "(SELECT r.trace FROM ferrule_traced_request r WHERE r.conversation IN {gone} AND r.conversation <> '' "
    "AND NOT EXISTS (SELECT 1 FROM ferrule_traced_request o WHERE o.trace = r.trace AND o.conversation NOT IN {gone}))"
)
_IS_RECENT = "EXISTS (SELECT 1 FROM ferrule_request q WHERE q.answer = ferrule_response.id AND q.begun_at >= ?)"
# The only value is a time. A request after it can still be retried with its key: what remains of it and of its answer
# has no content, and keeps the retry from running the calls again.
CONTENT: Mapping[str, str] = {
    "votes": f"DELETE FROM ferrule_vote WHERE approval IN {_APPROVALS}",
    "terms": f"DELETE FROM ferrule_approval_terms WHERE approval IN {_APPROVALS}",
    "approvals": "DELETE FROM ferrule_approval WHERE conversation IN {gone}",
    "uncollected": "DELETE FROM ferrule_uncollected WHERE conversation IN {gone}",
    "deliveries": "DELETE FROM ferrule_delivery WHERE conversation IN {gone}",
    "continuations": "DELETE FROM ferrule_continuation WHERE conversation IN {gone}",
    "picks": "DELETE FROM ferrule_pick WHERE conversation IN {gone}",
    "selections": "DELETE FROM ferrule_selection WHERE conversation IN {gone}",
    "calls": "DELETE FROM ferrule_call WHERE conversation IN {gone}",
    "events": f"DELETE FROM ferrule_event WHERE response IN {_RESPONSES}",
    "old_events": f"DELETE FROM ferrule_response_event WHERE response IN {_RESPONSES}",
    "requests": f"DELETE FROM ferrule_request WHERE begun_at < ? AND answer IN {_ANSWERS}",
    "recent_requests": f"UPDATE ferrule_request SET request = 'null' WHERE begun_at >= ? AND answer IN {_ANSWERS}",
    "responses": f"DELETE FROM ferrule_response WHERE conversation IN {{gone}} AND NOT {_IS_RECENT}",
    "recent_responses": "UPDATE ferrule_response SET request = 'null', status = 'cancelled', reach = 0 "
    f"WHERE conversation IN {{gone}} AND {_IS_RECENT}",
    "trace_tools": f"DELETE FROM ferrule_trace_tool WHERE trace IN {_TRACES}",
    "traces": f"DELETE FROM ferrule_trace WHERE id IN {_TRACES}",
    "traced_requests": "DELETE FROM ferrule_traced_request WHERE conversation IN {gone} AND conversation <> ''",
}
MESSAGES = "DELETE FROM ferrule_message WHERE conversation IN {gone}"
# What remains of a stub, with its audit log.
STUB: Mapping[str, str] = {
    "requests": f"DELETE FROM ferrule_request WHERE answer IN {_ANSWERS}",
    "responses": "DELETE FROM ferrule_response WHERE conversation IN {gone}",
}

# When a row belongs to its conversation: messages of a stub may wait for their week to be dropped, and a response
# without content for the key of its request to run out.
STRAY_CONDITIONS: Mapping[str, str] = {
    "ferrule_message": "c.pruned < 2 AND c.born = t.born",
    "ferrule_call": "c.pruned = 0",
    "ferrule_approval": "c.pruned = 0",
    "ferrule_response": "(c.pruned = 0 OR t.request = 'null')",
    "ferrule_selection": "c.pruned = 0",
    "ferrule_pick": "c.pruned = 0",
    "ferrule_continuation": "c.pruned = 0",
}

_GONE = "(SELECT id FROM ferrule_conversation WHERE pruned = 1)"
_OPEN_APPROVAL = "a.state IN ('pending', 'approved') AND a.expires_at > ?"
# Why a conversation is kept; empty if it is not. The last audit row says when it was changed: an earlier version does
# not note that in the conversation.
_REASON = (
    "CASE WHEN z.at IS NULL THEN 'damaged' WHEN z.at >= ? THEN 'recent' "
    f"WHEN {HELD_UNTIL} > ? THEN 'held' "
    "WHEN EXISTS (SELECT 1 FROM ferrule_response p WHERE p.conversation = c.id "
    "AND p.status IN ('queued', 'in_progress')) "
    "OR EXISTS (SELECT 1 FROM ferrule_continuation n WHERE n.conversation = c.id AND n.status = 'due') "
    "OR EXISTS (SELECT 1 FROM ferrule_delivery d WHERE d.conversation = c.id AND d.status = 'due') "
    f"OR EXISTS (SELECT 1 FROM ferrule_approval a WHERE a.conversation = c.id AND {_OPEN_APPROVAL}) "
    "THEN 'waiting' WHEN EXISTS (SELECT 1 FROM ferrule_call k WHERE k.conversation = c.id "
    "AND k.state IN ('started', 'unknown') AND k.side_effects = 1) THEN 'unknown' ELSE '' END"
)
_CANDIDATE = (
    f"SELECT c.id, c.born, c.epoch, c.audit_seq, c.audit_head, c.lease_until, {HELD_UNTIL}, c.tenant, "
    f"c.principal, c.messages, COALESCE(z.at, 0.0), {_REASON} FROM ferrule_conversation c "
    "LEFT JOIN ferrule_audit z ON z.conversation = c.id AND z.seq = c.audit_seq AND z.born IN (0, c.born)"
)

STATEMENTS: Mapping[str, str] = {
    # The first three values of both are those of the reason: changed before, and now twice.
    "prunable": f"{_CANDIDATE} WHERE c.pruned = 0 AND c.born <= ? AND c.changed_at < ? AND (c.born, c.id) > (?, ?) "
    "ORDER BY c.born, c.id LIMIT ?",
    "deletable": f"{_CANDIDATE} WHERE c.tenant = ? AND c.principal = ? AND c.id > ? ORDER BY c.id LIMIT ?",
    "mark_pruned": "UPDATE ferrule_conversation SET tenant = '', principal = '', owner = '', epoch = epoch + 1, "
    f"lease_until = {ENDLESS_LEASE!r}, state = 'null', messages = 0, title = '', audit_seq = ?, audit_head = ?, "
    "changed_at = ?, pruned = 1 WHERE id = ? AND epoch = ? AND audit_seq = ? AND lease_until = ? AND pruned = 0",
    "settle_stubs": "UPDATE ferrule_conversation SET pruned = 2 WHERE pruned = 1",
    "add_audit": "INSERT INTO ferrule_audit (conversation, seq, at, kind, call_id, approval, decided_by, epoch, "
    "detail, previous, hash, born) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    **{f"remove_{name}": text.format(gone=_GONE) for name, text in CONTENT.items()},
    "remove_messages": MESSAGES.format(gone=_GONE),
    # Stubs.
    "old_stubs": "SELECT id, born, audit_seq FROM ferrule_conversation WHERE pruned > 0 AND born <= ? "
    "AND changed_at < ? AND (born, id) > (?, ?) ORDER BY born, id LIMIT ?",
    "mark_stub": "UPDATE ferrule_conversation SET pruned = 1 WHERE id = ? AND audit_seq = ? AND pruned > 0",
    **{f"remove_stub_{name}": text.format(gone=_GONE) for name, text in STUB.items()},
    "remove_stub_audit": f"DELETE FROM ferrule_audit WHERE conversation IN {_GONE}",
    "remove_stubs": "DELETE FROM ferrule_conversation WHERE pruned = 1",
    # Requests whose key has run out, and what was kept of their answers for it.
    "old_blank_requests": "SELECT answer FROM ferrule_request WHERE request = 'null' AND begun_at < ? "
    "ORDER BY begun_at LIMIT ?",
    "remove_blank_response": "DELETE FROM ferrule_response WHERE id = ? AND request = 'null' AND EXISTS "
    "(SELECT 1 FROM ferrule_conversation c WHERE c.id = ferrule_response.conversation AND c.pruned > 0)",
    "remove_blank_request": "DELETE FROM ferrule_request WHERE answer = ? AND request = 'null'",
    # One person's rows that belong to no conversation.
    "traces_of_principal": "SELECT id FROM ferrule_trace WHERE tenant = ? AND principal = ? LIMIT ?",
    "remove_requests_of": "DELETE FROM ferrule_request WHERE tenant = ? AND principal = ? AND begun_at < ?",
    "blank_requests_of": "UPDATE ferrule_request SET request = 'null' WHERE tenant = ? AND principal = ?",
    # Pages of the whole ledger, for checks and exports.
    "conversation_page": "SELECT id, audit_seq, audit_head FROM ferrule_conversation WHERE id > ? ORDER BY id LIMIT ?",
    "audit_page": "SELECT a.conversation, a.seq, a.at, a.kind, a.call_id, a.approval, a.decided_by, a.epoch, a.detail, "
    "a.previous, a.hash FROM ferrule_conversation c JOIN ferrule_audit a ON a.conversation = c.id "
    "AND a.born IN (0, c.born) WHERE c.id > ? AND c.id <= ? ORDER BY a.conversation, a.seq",
    "stray_audit": "SELECT a.conversation, a.seq FROM ferrule_audit a WHERE NOT EXISTS (SELECT 1 FROM "
    "ferrule_conversation c WHERE c.id = a.conversation AND (a.born = 0 OR a.born = c.born)) LIMIT 1",
    "export_page": "SELECT id FROM ferrule_conversation WHERE id > ? AND (? = '' OR tenant = ?) "
    "AND (? = '' OR principal = ?) AND changed_at >= ? ORDER BY id LIMIT ?",
    "requests_of": "SELECT answer, tenant, principal, api, body_sha256, idempotency_key, begun_at, request "
    "FROM ferrule_request WHERE answer = ? OR answer IN (SELECT p.id FROM ferrule_response p WHERE p.conversation = ?) "
    "ORDER BY begun_at, answer",
    **{
        f"stray_{table}": f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} t WHERE NOT EXISTS "
        f"(SELECT 1 FROM ferrule_conversation c WHERE c.id = t.conversation AND {condition}) LIMIT 1000) x"
        for table, condition in STRAY_CONDITIONS.items()
    },
}
