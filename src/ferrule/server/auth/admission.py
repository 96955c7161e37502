"""Admission: decides whether a request is served.

The checks run in this order: the head of the request, Host and Origin, the key, the key's scopes, the limits. Denied by
default: a scope that is not in the table below belongs to no key. A missing scope is reported only to a client with a
valid key. Nothing here depends on the route except its scope.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ferrule.errors import AuthorityError, HeadTooLargeError, RequestError, UnauthenticatedError
from ferrule.server.auth.host import HostPolicy
from ferrule.server.auth.keys import Keyring, extract_keys, principal_of
from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.auth.request_limits import check_json
from ferrule.server.config.config import Config, KeyConfig
from ferrule.server.http import ANY, OPEN, Request

__all__ = ["Admission", "principal_of"]

_SCOPE_CHECKS: Mapping[str, Callable[[KeyConfig], bool]] = {
    ANY: lambda key: True,
    "models": lambda key: bool(key.models),
    "tools": lambda key: bool(key.tools),
    "approve": lambda key: key.approve,
    "admin": lambda key: key.admin,
}
_LIMITED_SCOPES = frozenset({"models", "tools"})
"""The scopes that need a free slot. Approvals and diagnostics must work even when answers use all slots."""
_SINGLE_HEADERS = frozenset({b"host", b"origin", b"authorization", b"x-api-key", b"content-length"}) | frozenset(
    {b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"idempotency-key"}
)
_HEADER_OVERHEAD = len(": \r\n")


@dataclass(slots=True)
class Admission:
    """The `Middleware` that authenticates requests and applies limits."""

    config: Config
    clock: Callable[[], float] = time.monotonic
    limiter: Limiter = field(init=False)
    _host_policy: HostPolicy = field(init=False)
    _keys: Keyring = field(init=False)

    def __post_init__(self) -> None:
        server = self.config.server
        self.limiter = Limiter.of(self.config.limits, self.config.keys, server.workers, self.clock)
        self._host_policy = HostPolicy.of(server.hosts, server.origins, allows_own_pages=self.config.allows_own_pages)
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

    def check_head(self, fields: Iterable[tuple[bytes, bytes]], target_length: int, query_length: int, /) -> None:
        limits = self.config.limits
        size, names = target_length, set[bytes]()
        for name, value in fields:
            size += len(name) + len(value) + _HEADER_OVERHEAD
            if name in _SINGLE_HEADERS:
                if name in names:
                    # A proxy in front of the gateway may have used the other value.
                    raise RequestError(f"the header {name.decode()!r} occurs twice", hint="Send it once.")
                names.add(name)
        if size > limits.header_bytes:
            raise HeadTooLargeError(
                f"URL and headers are longer than {limits.header_bytes} bytes", hint="Send shorter headers."
            )
        if query_length > limits.query_bytes:
            raise HeadTooLargeError(
                f"the query is longer than {limits.query_bytes} bytes", hint="Send a shorter query."
            )

    def check_body(self, body: bytes, /) -> None:
        check_json(body, self.config.limits.json_depth, self.config.limits.json_values)

    @asynccontextmanager
    async def admit(self, request: Request, scope: str, /) -> AsyncGenerator[Request]:
        self._host_policy.check(request.headers.get("host"), request.headers.get("origin"))
        if scope == OPEN:
            yield request
            return
        key = self._authenticate(request) if self.config.keys else None
        if key is not None:
            self._check_scope(key, scope)
            self.limiter.count_request(key.name)
        admitted_request = (
            replace(request, rights=frozenset(_SCOPE_CHECKS)) if key is None else _with_principal(request, key)
        )
        if scope not in _LIMITED_SCOPES:
            yield admitted_request
            return
        with self.limiter.slot(key.name if key else ""):
            yield admitted_request

    def _check_scope(self, key: KeyConfig, scope: str) -> None:
        if scope not in _SCOPE_CHECKS or not _SCOPE_CHECKS[scope](key):
            raise AuthorityError(
                f"the key {key.name!r} does not have the scope {scope!r}", hint="Use a key that has it."
            )

    def _authenticate(self, request: Request) -> KeyConfig:
        texts = extract_keys(
            request.headers.get("authorization"), request.headers.get("x-api-key"), request.subprotocols
        )
        keys = list(filter(None, [self._keys.find(text) for text in texts]))
        if len(keys) != 1:
            message = "the request has two different keys" if keys else "the key is missing or unknown"
            raise UnauthenticatedError(message, hint="Send one key, as Authorization: Bearer or as x-api-key.")
        return keys[0]


def _with_principal(request: Request, key: KeyConfig) -> Request:
    rights = frozenset(scope for scope, has in _SCOPE_CHECKS.items() if has(key))
    return replace(request, principal=principal_of(key), rights=rights)
