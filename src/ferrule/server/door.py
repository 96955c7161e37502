"""Door: who may come in. Host and Origin first, then the key, then how much is under way. Default deny.

Keys are compared by their hashes and in constant time; an unknown key and a missing scope are told apart only after
the key is known.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from ferrule.core.context import Principal
from ferrule.errors import AuthorityError, HostError, UnauthenticatedError
from ferrule.server.config import Config, KeyConfig
from ferrule.server.exchange import Asked

OPEN = "open"
_ALL = "*"


@dataclass(slots=True)
class Door:
    """The `Front` of a gateway."""

    config: Config

    @property
    def body_bytes(self) -> int:
        return self.config.limits.body_bytes

    @property
    def body_seconds(self) -> float:
        return self.config.limits.body_seconds

    @property
    def send_seconds(self) -> float:
        return self.config.limits.send_seconds

    @asynccontextmanager
    async def admitted(self, asked: Asked, scope: str, /) -> AsyncGenerator[Asked]:
        self._check_host(asked)
        if scope == OPEN:
            yield asked
            return
        if not self.config.keys:
            yield asked
            return
        key = self._key(asked)
        if not _has(key, scope):
            raise AuthorityError(f"the key {key.name!r} has no scope {scope!r}", hint="Ask for a key that has it.")
        yield replace(asked, principal=principal_of(key))

    def _check_host(self, asked: Asked) -> None:
        listening = self.config.listening
        host = (
            asked.headers.get("host", "").rsplit(":", 1)[0]
            if "]" not in asked.headers.get("host", "")
            else (asked.headers["host"].split("]")[0] + "]")
        )
        if _ALL not in listening.hosts and host not in listening.hosts:
            raise HostError(f"the host {host[:80]!r} is not served here", hint="Name it in hosts.")
        origin = asked.headers.get("origin")
        if origin is not None and origin not in listening.origins:
            raise HostError(f"pages of {origin[:80]!r} may not call this", hint="Name the page in origins.")

    def _key(self, asked: Asked) -> KeyConfig:
        given = asked.headers.get("x-api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
        digest = hashlib.sha256(given.encode()).hexdigest()
        found: KeyConfig | None = None
        for key in self.config.keys:
            # All of them, so that the time says nothing about which.
            if hmac.compare_digest(key.sha256, digest):
                found = key
        if found is None or not given:
            raise UnauthenticatedError("there is no such key", hint="Send it as Authorization: Bearer, or x-api-key.")
        return found


def principal_of(key: KeyConfig) -> Principal:
    """Who a key stands for, with what he may use: tools by name, models as `model:name`."""
    if _ALL in key.models and _ALL in key.tools:
        return Principal(key.name, key.tenant)
    return Principal(key.name, key.tenant, _Scopes(key))


class _Scopes(frozenset[str]):
    """The capabilities of a key, with room for "all of a kind"."""

    _key: KeyConfig

    def __new__(cls, key: KeyConfig) -> _Scopes:
        made = super().__new__(cls, (*key.tools, *(f"model:{name}" for name in key.models)))
        made._key = key
        return made

    def __contains__(self, capability: object) -> bool:
        is_model = isinstance(capability, str) and capability.startswith("model:")
        if _ALL in (self._key.models if is_model else self._key.tools):
            return True
        return super().__contains__(capability)


def _has(key: KeyConfig, scope: str) -> bool:
    return {
        "models": bool(key.models),
        "tools": bool(key.tools),
        "approve": key.approve,
        "admin": key.admin,
    }.get(scope, False)
