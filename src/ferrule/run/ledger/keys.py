"""API keys in the ledger: the values, and the transactions on them. Independent of the database.

A key is known by its SHA-256 alone. Every change of a key also raises one number, in the same transaction. So a process
learns with one small read that something has changed, and reads the keys only then. The last use of a key is no change.

Of a ledger over several databases, the first one has the keys: a key must be found before its tenant is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

from ferrule.core.json_text import dumps, loads
from ferrule.errors import LedgerError
from ferrule.run.ledger.claim import require_name
from ferrule.run.ledger.transaction import Row, Transaction, execute

MAX_LISTED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPermissions:
    """What a key may do. `models`, `tools` and `sources` are patterns in which `*` stands for any text."""

    models: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ()
    sources: tuple[str, ...] = ("*",)
    approve: bool = False
    admin: bool = False
    operator: bool = False
    live_arguments: bool = False
    rate: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key in the ledger. Several keys with one name and tenant are the same principal: so a key can be rotated."""

    id: str
    sha256: str
    name: str
    tenant: str
    permissions: KeyPermissions
    created_at: float
    created_by: str
    expires_at: float | None = None
    revoked_at: float | None = None
    revoked_by: str = ""
    replaced_by: str = ""
    """The id of the key that came out of its rotation."""
    last_used_at: float | None = None

    def is_usable(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def find_number() -> Transaction[int]:
    """Return the number that every change of a key raises; 0 if there never was a key."""
    rows = (yield from execute("key_number")).rows
    return rows[0][0] if rows else 0


def find_usable(ended_after: float) -> Transaction[tuple[KeyRecord, ...]]:
    """Return the keys that may be used, and those that ended after a time, so that their users learn why."""
    rows = (yield from execute("usable_keys", ended_after, ended_after)).rows
    return tuple(map(_record, rows))


def find_tenants() -> Transaction[tuple[str, ...]]:
    """Return tenants that have or had keys: two of them, or all if they are fewer."""
    ((first, last),) = (yield from execute("key_tenants")).rows
    return tuple(dict.fromkeys(one for one in (first, last) if one is not None))


def find_key(id: str) -> Transaction[KeyRecord | None]:
    rows = (yield from execute("key", id)).rows
    return _record(rows[0]) if rows else None


def list_keys(tenant: str | None, after: str, limit: int) -> Transaction[tuple[KeyRecord, ...]]:
    """Return keys, newest first, of one tenant or of all; those that come after the key `after`."""
    start: tuple[float, str] = (float("inf"), "")
    if after:
        cursor = yield from find_key(after)
        if cursor is None or tenant not in (None, cursor.tenant):
            raise LedgerError("there is no such key to continue after", code="bad_cursor", hint="Start without it.")
        start = (cursor.created_at, cursor.id)
    name = "all_keys" if tenant is None else "keys_of"
    owner = () if tenant is None else (tenant,)
    rows = (yield from execute(name, *owner, *start, min(limit, MAX_LISTED))).rows
    return tuple(map(_record, rows))


def add_key(key: KeyRecord) -> Transaction[None]:
    require_name(key.name, "a key's name")
    require_name(key.tenant, "a tenant")
    count = (yield from execute("add_key", *_row(key))).count
    if not count:
        raise LedgerError("this key is stored already", code="key_exists", hint="Create another one.")
    yield from execute("raise_key_number")


def rotate_key(id: str, new: KeyRecord, expires_at: float, now: float) -> Transaction[KeyRecord | None]:
    """Add a key with the name and the permissions of another one, which expires then. Returns the new one.

    None if the old key is unknown, has ended or was rotated before: of several callers one gets a key.
    """
    old = yield from find_key(id)
    if old is None or not old.is_usable(now):
        return None
    ends_at = expires_at if old.expires_at is None else min(expires_at, old.expires_at)
    if not (yield from execute("replace_key", new.id, ends_at, id, now)).count:
        return None
    added = replace(new, name=old.name, tenant=old.tenant, permissions=old.permissions)
    yield from add_key(added)
    return added


def revoke_key(id: str, by: str, now: float) -> Transaction[KeyRecord | None]:
    """Revoke a key. Returns it as it is then, also if it was revoked before; None if it is unknown."""
    if (yield from execute("revoke_key", now, by, id)).count:
        yield from execute("raise_key_number")
    return (yield from find_key(id))


def note_uses(uses: Mapping[str, float]) -> Transaction[None]:
    """Note when keys were last used. Always in the same order, so that two processes cannot deadlock."""
    for id, at in sorted(uses.items()):
        yield from execute("note_key_use", at, id, at)


def _row(key: KeyRecord) -> tuple[object, ...]:
    identity = (key.id, key.sha256, key.name, key.tenant, _text(key.permissions))
    return *identity, float(key.created_at), key.created_by, key.expires_at, None, "", "", None


def _record(row: Row) -> KeyRecord:
    id, sha256, name, tenant, text, created_at, created_by, expires_at, revoked_at, revoked_by, replaced_by, used = row
    return KeyRecord(
        id=id,
        sha256=sha256,
        name=name,
        tenant=tenant,
        permissions=_permissions(text),
        created_at=created_at,
        created_by=created_by,
        expires_at=expires_at,
        revoked_at=revoked_at,
        revoked_by=revoked_by,
        replaced_by=replaced_by,
        last_used_at=used,
    )


def _text(permissions: KeyPermissions) -> str:
    return dumps(asdict(permissions))


def _permissions(text: str) -> KeyPermissions:
    stored = cast("dict[str, Any]", loads(text))
    # A later release may store more: what this one does not know grants nothing here.
    known = {field.name: stored[field.name] for field in fields(KeyPermissions) if field.name in stored}
    for name in ("models", "tools", "sources"):
        known[name] = tuple(known.get(name, ()))
    return KeyPermissions(**known)
