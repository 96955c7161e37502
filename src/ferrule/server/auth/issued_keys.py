"""Issued keys: how a key of the ledger is made, what of it is shown, and what a key may hand on to another one."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ferrule.core.context import matches
from ferrule.errors import AuthorityError, DefinitionError
from ferrule.run.ledger.keys import KeyPermissions, KeyRecord
from ferrule.server.config.config import KeyConfig

PREFIX = "fk_"
_BYTES = 32
ACTIVE, EXPIRED, REVOKED = "active", "expired", "revoked"
MAX_NAME_CHARS = 200
MAX_PATTERNS = 1_000
MAX_PATTERN_CHARS = 200


def new_key() -> str:
    """A random key of 256 bits. The prefix helps secret scanners to find leaked keys."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def issue_key(
    name: str, tenant: str, permissions: KeyPermissions, *, by: str, expires_at: float | None, now: float
) -> tuple[str, KeyRecord]:
    """Make a key. Returns its text, which is stored nowhere, and what the ledger stores of it.

    Example:
        text, record = issue_key("app", "acme", KeyPermissions(), by="ops", expires_at=None, now=time.time())
        await ledger.add_key(record)
    """
    check_permissions(permissions)
    for text, what in ((name, "a key's name"), (tenant, "a tenant")):
        if not 1 <= len(text) <= MAX_NAME_CHARS or not text.isprintable():
            raise DefinitionError(
                f"{text[:40]!r} cannot be {what}", hint=f"Use 1 to {MAX_NAME_CHARS} printable characters."
            )
    if expires_at is not None and not now < expires_at < float("inf"):
        raise DefinitionError("the key would have expired already", hint="Choose a later time, or leave it out.")
    text = new_key()
    record = KeyRecord(
        id=f"key_{secrets.token_hex(12)}",
        sha256=hash_of(text),
        name=name,
        tenant=tenant,
        permissions=permissions,
        created_at=now,
        created_by=by,
        expires_at=expires_at,
    )
    return text, record


def check_permissions(permissions: KeyPermissions) -> None:
    """Raise for permissions that no key can have."""
    for kind in ("models", "tools", "sources"):
        patterns = getattr(permissions, kind)
        if len(patterns) > MAX_PATTERNS:
            raise DefinitionError(f"{kind}: {len(patterns)} are too many", hint=f"At most {MAX_PATTERNS}; use `*`.")
        for pattern in patterns:
            if not pattern or len(pattern) > MAX_PATTERN_CHARS or not pattern.isprintable():
                raise DefinitionError(
                    f"{kind}: {pattern[:40]!r} is not a pattern",
                    hint=f"Write a name of 1 to {MAX_PATTERN_CHARS} printable characters; `*` stands for any text.",
                )
    if permissions.rate < 0 or permissions.width < 0:
        raise DefinitionError("rate and width must be 0 or more", hint="Leave them out for no limit.")


def require_covered(permissions: KeyPermissions, by: KeyConfig) -> None:
    """Raise if permissions exceed those of the key that hands them on."""
    # An admin who operates the gateway only because there is one tenant has no such right to hand on: it would stay
    # when there are several.
    flags = ("approve", "operator", "live_arguments")
    exceeded = [name for name in flags if getattr(permissions, name) and not getattr(by, name)]
    for kind in ("models", "tools", "sources"):
        granted = getattr(permissions, kind)
        exceeded += [f"{kind} {one!r}" for one in granted if not _is_covered(one, getattr(by, kind))]
    for limit in ("rate", "width"):
        own, wanted = getattr(by, limit), getattr(permissions, limit)
        if own and not 0 < wanted <= own:
            exceeded.append(f"a {limit} above {own}")
    if exceeded:
        raise AuthorityError(
            f"the key {by.name!r} cannot hand on what it does not have: {', '.join(exceeded[:5])}",
            hint="Use an admin key that has it, or `ferrule keys create`.",
        )


def _is_covered(pattern: str, patterns: Iterable[str]) -> bool:
    # Only a `*` matches a `*`, so what a pattern matches as a text it also covers as a pattern. The kind is the same.
    return any(matches(f"any:{pattern}", f"any:{one}") for one in patterns)


def status_of(record: KeyRecord, now: float) -> str:
    if record.revoked_at is not None:
        return REVOKED
    return ACTIVE if record.is_usable(now) else EXPIRED


def key_view(record: KeyRecord, now: float) -> dict[str, Any]:
    """A key as JSON, without its hash."""
    return {
        "object": "key",
        "id": record.id,
        "name": record.name,
        "tenant": record.tenant,
        "status": status_of(record, now),
        **asdict(record.permissions),
        "created_at": record.created_at,
        "created_by": record.created_by,
        "expires_at": record.expires_at,
        "last_used_at": record.last_used_at,
        "revoked_at": record.revoked_at,
        "revoked_by": record.revoked_by,
        "replaced_by": record.replaced_by,
    }
