"""The caller that the claims of a verified token describe: its name, its tenant, and what its roles grant.

A caller is a `Key`, so that everything behind the admission treats both alike. Must not know how tokens are verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from ferrule.core.context import matches
from ferrule.errors import AuthorityError, UnauthenticatedError
from ferrule.server.auth.keys import Key
from ferrule.server.config.config import KeyConfig
from ferrule.server.config.identity import IdentityConfig, RoleConfig

_MAX_CHARS = 200
SEPARATOR = ":"
"""Between the name of an identity provider and the name of its caller."""
_MISSING = object()


def caller_of(claims: Mapping[str, Any], identity: IdentityConfig, roles: Iterable[RoleConfig]) -> Key:
    """Return the caller with these claims. Raises if they do not name one, or if no role grants anything.

    Example:
        caller_of({"sub": "ann", "exp": 1800000000, "roles": ["user"]}, identity, config.roles)
    """
    name = _read_name(claims, identity.principal_claim)
    if identity.principal_claim == "email" and claims.get("email_verified", True) is not True:
        raise _claims_error("the claim 'email' was not verified", "Verify the address with the identity provider.")
    tenant = _read_name(claims, identity.tenant_claim) if identity.tenant_claim else identity.tenant
    if identity.tenant_claim and not any(matches(f"any:{tenant}", f"any:{one}") for one in identity.tenants):
        raise _claims_error(
            f"tokens of {identity.name!r} cannot name this tenant", "Get a token for another one, or add it to tenants."
        )
    names = {*identity.roles, *_read_roles(claims, identity.role_claim)}
    granted = [role for role in roles if role.name in names and role.identity in ("", identity.name)]
    if not granted:
        raise AuthorityError(
            "the token has no role that grants anything here",
            code="token_without_role",
            hint=f"Get a token whose claim {identity.role_claim!r} has a role of this gateway's [roles].",
        )
    config = _granted(f"{identity.name}{SEPARATOR}{name}", tenant, granted)
    return replace(
        Key.of(config),
        limit_name=f"{tenant}/{config.name}",
        expires_at=float(claims["exp"]) + identity.leeway_seconds,
        is_token=True,
    )


def _granted(name: str, tenant: str, roles: Iterable[RoleConfig]) -> KeyConfig:
    """Add up what roles grant. Of two limits the higher one counts, and 0 is none."""
    roles = tuple(roles)

    def union(kind: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pattern for role in roles for pattern in getattr(role, kind)))

    def highest(limit: str) -> int:
        limits = [getattr(role, limit) for role in roles]
        return max(limits) if all(limits) else 0

    return KeyConfig(
        name=name,
        sha256="",
        tenant=tenant,
        models=union("models"),
        tools=union("tools"),
        sources=union("sources"),
        approve=any(role.approve for role in roles),
        admin=any(role.admin for role in roles),
        operator=any(role.operator for role in roles),
        rate=highest("rate"),
        width=highest("width"),
    )


def _read_name(claims: Mapping[str, Any], claim: str) -> str:
    value = _find(claims, claim)
    if not isinstance(value, str) or not 1 <= len(value) <= _MAX_CHARS or not value.isprintable():
        raise _claims_error(
            f"the claim {claim!r} is missing or not a text of 1 to {_MAX_CHARS} printable characters",
            "Let the identity provider add it to its access tokens, or configure another claim.",
        )
    return value


def _read_roles(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    value = _find(claims, claim)
    if isinstance(value, str):
        return frozenset(value.split())
    found = cast("list[object]", value) if isinstance(value, list) else []
    return frozenset(one for one in found if isinstance(one, str))


def _find(claims: Mapping[str, Any], claim: str) -> object:
    """Return a claim, or _MISSING. Some providers name claims with a URL, so the whole name comes before its parts."""
    if claim in claims:
        return claims[claim]
    value: object = claims
    for part in claim.split("."):
        value = cast("Mapping[str, object]", value).get(part, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value


def _claims_error(message: str, hint: str) -> UnauthenticatedError:
    return UnauthenticatedError(message, code="token_claims", hint=hint)
