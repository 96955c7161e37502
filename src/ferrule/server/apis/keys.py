"""`/v1/keys`: create, list, rotate and revoke the keys of a tenant in the ledger, for keys with the admin right.

A key hands on only what it has, so that the key of a metrics collector cannot make one that runs tools. Keys of the
configuration are not listed: they change with the file.
"""

from __future__ import annotations

import time

from ferrule.dialects.field import Field
from ferrule.errors import AuthorityError, DefinitionError, NotFoundError
from ferrule.run.ledger.keys import KeyPermissions, KeyRecord
from ferrule.server.apis.chat import render_error
from ferrule.server.apis.query import read_limit, read_terms, reported_cursor
from ferrule.server.auth.issued_keys import issue_key, key_view, require_covered
from ferrule.server.gateway import Gateway
from ferrule.server.http import ADMIN, AnyResponse, Request, Response, Route

MAX_LIMIT = 200
_DEFAULT_LIMIT = 50
_FIELDS = frozenset({"name", "tenant", "expires_in", *KeyPermissions.__slots__})
_NOT_STORED = {"cache-control": "no-store"}
_MAX_SECONDS = 100 * 366 * 86_400.0


def routes(gateway: Gateway) -> list[Route]:
    async def list_keys(request: Request) -> AnyResponse:
        limit, after = read_limit(request, _DEFAULT_LIMIT, MAX_LIMIT), read_terms(request, "after")["after"]
        with reported_cursor():
            page = await gateway.ledger.list_keys(_tenant(request), limit=limit + 1, after=after)
        now = time.time()
        body = {
            "object": "list",
            "data": [key_view(one, now) for one in page[:limit]],
            "has_more": len(page) > limit,
            # The keys of a temporary ledger end with the gateway, and a page that creates keys has to say so.
            "is_temporary": not gateway.config.ledger_addresses,
        }
        return Response.json(body, headers=_NOT_STORED)

    async def create(request: Request) -> AnyResponse:
        now, body = time.time(), request.json()
        unknown = sorted(body.keys() - _FIELDS)
        if unknown:
            # A misspelt limit or pattern would make a key that may do more than was meant.
            raise DefinitionError(f"unknown field {unknown[0][:80]!r}", hint=f"Known: {', '.join(sorted(_FIELDS))}.")
        fields = Field(body)
        permissions = _read_permissions(fields)
        tenant = fields["tenant"].or_else(Field.string, request.principal.tenant)
        if _tenant(request) not in (None, tenant):
            raise AuthorityError(
                f"the key {request.principal.name!r} manages the keys of its own tenant",
                hint="Leave out tenant, or use `ferrule keys create --tenant`.",
            )
        _require_covered(request, permissions)
        text, record = issue_key(
            fields["name"].string(),
            tenant,
            permissions,
            by=request.principal.name,
            expires_at=_read_end(fields, "expires_in", now),
            now=now,
        )
        await gateway.ledger.add_key(record)
        await gateway.keys.refresh()
        return Response.json({**key_view(record, now), "key": text}, 201, _NOT_STORED)

    async def show(request: Request) -> AnyResponse:
        return Response.json(key_view(await _find(gateway, request), time.time()), headers=_NOT_STORED)

    async def rotate(request: Request) -> AnyResponse:
        now, old = time.time(), await _find(gateway, request)
        fields = Field(request.json() if request.body else {})
        overlap = fields["overlap_seconds"].or_else(Field.number, 0.0)
        if not 0 <= overlap <= _MAX_SECONDS:
            raise DefinitionError("overlap_seconds is not a duration", hint="Send seconds, 0 or more.")
        _require_covered(request, old.permissions)
        expires_at = _read_end(fields, "expires_in", now)
        text, new = issue_key(
            old.name, old.tenant, old.permissions, by=request.principal.name, expires_at=expires_at, now=now
        )
        added = await gateway.ledger.rotate_key(old.id, new, expires_at=now + overlap, now=now)
        if added is None:
            raise DefinitionError(
                "the key has ended, or was rotated before", code="key_ended", hint="Rotate the key that replaced it."
            )
        await gateway.keys.refresh()
        return Response.json({**key_view(added, now), "key": text}, 201, _NOT_STORED)

    async def revoke(request: Request) -> AnyResponse:
        old = await _find(gateway, request)
        now = time.time()
        revoked = await gateway.ledger.revoke_key(old.id, request.principal.name, now=now)
        assert revoked is not None
        await gateway.keys.refresh()
        return Response.json(key_view(revoked, now), headers=_NOT_STORED)

    return [
        Route("GET", "/v1/keys", list_keys, ADMIN, render_error),
        Route("POST", "/v1/keys", create, ADMIN, render_error),
        Route("GET", "/v1/keys/{id}", show, ADMIN, render_error),
        Route("POST", "/v1/keys/{id}/rotate", rotate, ADMIN, render_error),
        Route("POST", "/v1/keys/{id}/revoke", revoke, ADMIN, render_error),
    ]


def _tenant(request: Request) -> str | None:
    """The tenant whose keys a client manages; None for all, while the gateway needs no key."""
    return None if request.key is None else request.principal.tenant


async def _find(gateway: Gateway, request: Request) -> KeyRecord:
    id, tenant = request.params["id"], _tenant(request)
    record = await gateway.ledger.key(id) if id.isprintable() else None
    if record is None or tenant not in (None, record.tenant):
        raise NotFoundError("there is no such key", hint="GET /v1/keys lists them.")
    return record


def _require_covered(request: Request, permissions: KeyPermissions) -> None:
    if request.key is not None:
        require_covered(permissions, request.key.config)


def _read_permissions(fields: Field) -> KeyPermissions:
    default = KeyPermissions()
    return KeyPermissions(
        models=_read_patterns(fields["models"], default.models),
        tools=_read_patterns(fields["tools"], default.tools),
        sources=_read_patterns(fields["sources"], default.sources),
        approve=fields["approve"].or_else(Field.boolean, False),
        admin=fields["admin"].or_else(Field.boolean, False),
        operator=fields["operator"].or_else(Field.boolean, False),
        live_arguments=fields["live_arguments"].or_else(Field.boolean, False),
        rate=fields["rate"].or_else(Field.integer, 0),
        width=fields["width"].or_else(Field.integer, 0),
    )


def _read_patterns(field: Field, default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.string() for item in field.items()) if field.is_given else default


def _read_end(fields: Field, name: str, now: float) -> float | None:
    """Read after how many seconds a key expires; None for never."""
    seconds = fields[name].optional(Field.number)
    if seconds is None:
        return None
    if not 0 < seconds <= _MAX_SECONDS:
        raise DefinitionError(f"{name} is not a duration in seconds", hint="Leave it out for a key without an end.")
    return now + seconds
