"""Door: who may come in. The head of the request first, then Host and Origin, then the key, then how much is under way.

Default deny: a scope that is not in the table below is had by no key. An unknown key and a missing scope are told apart
only after the key is known. What is answered where does not depend on anything here but the route's scope.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ferrule.errors import AuthorityError, HeadTooLargeError, RequestError, UnauthenticatedError
from ferrule.server.auth.host import Served
from ferrule.server.auth.json_limits import check_json
from ferrule.server.auth.keys import Keyring, given_keys, principal_of
from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.config.config import Config, KeyConfig
from ferrule.server.http import ANY, OPEN, Asked

__all__ = ["Door", "principal_of"]

_MAY: Mapping[str, Callable[[KeyConfig], bool]] = {
    ANY: lambda key: True,
    "models": lambda key: bool(key.models),
    "tools": lambda key: bool(key.tools),
    "approve": lambda key: key.approve,
    "admin": lambda key: key.admin,
}
_TAKES_A_PLACE = frozenset({"models", "tools"})
"""Not the others: whoever gives leave, or looks why nothing moves, must come in when answers fill the house."""
_SAID_ONCE = frozenset({b"host", b"origin", b"authorization", b"x-api-key", b"content-length"}) | frozenset(
    {b"mcp-protocol-version", b"mcp-method", b"mcp-name"}
)
_LINE = len(": \r\n")


@dataclass(slots=True)
class Door:
    """The `Front` of a gateway."""

    config: Config
    clock: Callable[[], float] = time.monotonic
    limiter: Limiter = field(init=False)
    _served: Served = field(init=False)
    _keys: Keyring = field(init=False)

    def __post_init__(self) -> None:
        listening = self.config.listening
        self.limiter = Limiter.of(self.config.limits, self.config.keys, listening.workers, self.clock)
        self._served = Served.of(listening.hosts, listening.origins, admits_own=self.config.admits_own_pages)
        self._keys = Keyring(self.config.keys)

    @property
    def body_bytes(self) -> int:
        return self.config.limits.body_bytes

    @property
    def body_seconds(self) -> float:
        return self.config.limits.body_seconds

    @property
    def send_seconds(self) -> float:
        return self.config.limits.send_seconds

    def check_head(self, fields: Iterable[tuple[bytes, bytes]], address: int, query: int, /) -> None:
        limits = self.config.limits
        size, once = address, set[bytes]()
        for name, value in fields:
            size += len(name) + len(value) + _LINE
            if name in _SAID_ONCE:
                if name in once:
                    # Whoever stands before us may have believed the other one.
                    raise RequestError(f"there are two headers {name.decode()!r}", hint="Send one.")
                once.add(name)
        if size > limits.header_bytes:
            raise HeadTooLargeError(
                f"address and headers are longer than {limits.header_bytes} bytes", hint="Send less in them."
            )
        if query > limits.query_bytes:
            raise HeadTooLargeError(f"the query is longer than {limits.query_bytes} bytes", hint="Send less in it.")

    def check_body(self, body: bytes, /) -> None:
        check_json(body, self.config.limits.json_depth, self.config.limits.json_values)

    @asynccontextmanager
    async def admitted(self, asked: Asked, scope: str, /) -> AsyncGenerator[Asked]:
        self._served.check(asked.headers.get("host"), asked.headers.get("origin"))
        if scope == OPEN:
            yield asked
            return
        key = self._key(asked) if self.config.keys else None
        if key is not None:
            self._check_scope(key, scope)
            self.limiter.count(key.name)
        known = replace(asked, rights=frozenset(_MAY)) if key is None else _known(asked, key)
        if scope not in _TAKES_A_PLACE:
            yield known
            return
        with self.limiter.place(key.name if key else ""):
            yield known

    def _check_scope(self, key: KeyConfig, scope: str) -> None:
        if scope not in _MAY or not _MAY[scope](key):
            raise AuthorityError(f"the key {key.name!r} has no scope {scope!r}", hint="Ask for a key that has it.")

    def _key(self, asked: Asked) -> KeyConfig:
        shown = given_keys(asked.headers.get("authorization"), asked.headers.get("x-api-key"), asked.subprotocols)
        found = list(filter(None, [self._keys.find(text) for text in shown]))
        if len(found) != 1:
            said = "two keys of different holders were sent" if found else "there is no such key"
            raise UnauthenticatedError(said, hint="Send one, as Authorization: Bearer or as x-api-key.")
        return found[0]


def _known(asked: Asked, key: KeyConfig) -> Asked:
    rights = frozenset(scope for scope, has in _MAY.items() if has(key))
    return replace(asked, principal=principal_of(key), rights=rights)
