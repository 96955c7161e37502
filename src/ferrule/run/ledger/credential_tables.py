"""The tables and statements of stored credentials. `tables` merges them into its own. See `credentials`."""

from __future__ import annotations

from collections.abc import Mapping

TABLES = (
    """CREATE TABLE IF NOT EXISTS ferrule_credential (
        tenant TEXT NOT NULL, principal TEXT NOT NULL, id TEXT NOT NULL, revision TEXT NOT NULL, sealed TEXT NOT NULL,
        changed_at REAL8 NOT NULL, PRIMARY KEY (tenant, principal, id))""",
    """CREATE TABLE IF NOT EXISTS ferrule_credential_lease (
        tenant TEXT NOT NULL, principal TEXT NOT NULL, id TEXT NOT NULL, holder TEXT NOT NULL, until REAL8 NOT NULL,
        PRIMARY KEY (tenant, principal, id))""",
)
_KEY = "tenant = ? AND principal = ? AND id = ?"
STATEMENTS: Mapping[str, str] = {
    "credential": f"SELECT sealed FROM ferrule_credential WHERE {_KEY}",
    "credential_revision": f"SELECT revision FROM ferrule_credential WHERE {_KEY}",
    "store_credential": "INSERT INTO ferrule_credential (tenant, principal, id, revision, sealed, changed_at) "
    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, principal, id) DO UPDATE SET revision = excluded.revision, "
    "sealed = excluded.sealed, changed_at = excluded.changed_at",
    "credentials_after": "SELECT tenant, principal, id, sealed FROM ferrule_credential "
    "WHERE (tenant, principal, id) > (?, ?, ?) ORDER BY tenant, principal, id LIMIT ?",
    # Neither its revision nor its time: what is sealed is the same, so nobody has to read it again.
    "reseal_credential": f"UPDATE ferrule_credential SET sealed = ? WHERE {_KEY} AND sealed = ?",
    "credential_owners": "SELECT tenant, principal, changed_at FROM ferrule_credential "
    "WHERE id = ? AND tenant <> '' ORDER BY changed_at DESC LIMIT ?",
    "remove_credential": f"DELETE FROM ferrule_credential WHERE {_KEY}",
    "forget_credentials": "DELETE FROM ferrule_credential WHERE tenant = ? AND principal = ?",
    "lease_credential": "INSERT INTO ferrule_credential_lease (tenant, principal, id, holder, until) "
    "VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, principal, id) DO UPDATE SET holder = excluded.holder, "
    "until = excluded.until WHERE ferrule_credential_lease.until < ? OR "
    "ferrule_credential_lease.holder = excluded.holder",
    "release_credential": f"DELETE FROM ferrule_credential_lease WHERE {_KEY} AND holder = ?",
}
