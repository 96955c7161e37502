"""The table and statements of leases. `tables` merges them into its own. See `heartbeat`."""

from __future__ import annotations

from collections.abc import Mapping

WHILE_ALIVE = 1e15
"""The `lease_until` of a conversation that is held for as long as its owner lives."""
TABLE = "CREATE TABLE IF NOT EXISTS ferrule_owner (id TEXT PRIMARY KEY, alive_until REAL8 NOT NULL)"
ALIVE_UNTIL = "COALESCE((SELECT o.alive_until FROM ferrule_owner o WHERE o.id = {conversation}.owner), 0.0)"
HELD_UNTIL = (
    f"CASE WHEN c.lease_until = {WHILE_ALIVE} THEN {ALIVE_UNTIL.format(conversation='c')} ELSE c.lease_until END"
)
"""Until when no other owner may take over the conversation `c`."""
IS_FREE = (
    f"CASE WHEN c.lease_until = {WHILE_ALIVE} "
    "THEN c.owner NOT IN (SELECT o.id FROM ferrule_owner o WHERE o.alive_until > ?) ELSE c.lease_until <= ? END"
)
"""Whether another owner may take over the conversation `c` by now, twice a value. Of many conversations, which have few
owners: those that are alive are read once, into a table of hashes."""
STATEMENTS: Mapping[str, str] = {
    "set_lease": "UPDATE ferrule_conversation SET lease_until = ? WHERE id = ? AND epoch = ?",
    "beat": "INSERT INTO ferrule_owner (id, alive_until) VALUES (?, ?) "
    "ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until",
    "forget_owners": "DELETE FROM ferrule_owner WHERE alive_until < ?",
}
