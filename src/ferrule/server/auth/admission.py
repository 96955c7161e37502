"""Admission: decides whether a request is served.

The checks run in this order: the head of the request, Host and Origin, the key, the key's scopes, the limits. Denied by
default: a scope that is not in the table below belongs to no key. A missing scope is reported only to a client with a
valid key. Nothing here depends on the route except its scope.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ferrule.errors import AuthorityError, HeadTooLargeError, RequestError, UnauthenticatedError
from ferrule.server.auth.host import HostPolicy
from ferrule.server.auth.key_store import KeyStore
from ferrule.server.auth.keys import SCOPE_CHECKS, Key, extract_keys, principal_of
from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.auth.request_limits import check_json
from ferrule.server.auth.tokens import looks_like_token
from ferrule.server.config.config import Config
from ferrule.server.http import ADMIN, OPEN, OPERATOR, Request

__all__ = ["Admission", "principal_of"]

_LIMITED_SCOPES = frozenset({"models", "tools"})
"""The scopes that need a free slot. Approvals and diagnostics must work even when answers use all slots."""
_SINGLE_HEADERS = frozenset({b"host", b"origin", b"authorization", b"x-api-key", b"content-length"}) | frozenset(
    {b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"idempotency-key"}
)
_ALL_RIGHTS = frozenset(SCOPE_CHECKS)
_HEADER_OVERHEAD = len(": \r\n")


@dataclass(slots=True)
class Admission:
    """The `Middleware` that authenticates requests and applies limits. Without `keys` it knows those of the config."""

    config: Config
    key_store: KeyStore | None = None
    clock: Callable[[], float] = time.monotonic
    limiter: Limiter = field(init=False)
    _host_policy: HostPolicy = field(init=False)
    _keys: KeyStore = field(init=False)

    def __post_init__(self) -> None:
        server = self.config.server
        self.limiter = Limiter.of(self.config.limits, self.config.keys, server.workers, self.clock)
        self._host_policy = HostPolicy.of(server.hosts, server.origins, allows_own_pages=self.config.allows_own_pages)
        self._keys = self.key_store or KeyStore(self.config)
        self._keys.on_change.append(self.limiter.set_keys)

    def set_config(self, config: Config) -> None:
        """Take up another configuration. What was counted for a limit stays."""
        server = config.server
        self.config = config
        self.limiter.set_gateway_limit(config.limits.streams)
        self._host_policy = HostPolicy.of(server.hosts, server.origins, allows_own_pages=config.allows_own_pages)

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
        key = await self._authenticate(request) if self._keys.is_required else None
        if key is None:
            admitted_request = replace(request, rights=_ALL_RIGHTS)
        else:
            rights = self._keys.rights_of(key)
            if scope not in rights:
                if scope == OPERATOR and ADMIN in rights:
                    # Whether it is one too depends on the tenants of the ledger.
                    self._keys.check_loaded()
                raise _scope_error(key, scope)
            self.limiter.count_request(key.limit_name)
            admitted_request = replace(request, principal=key.principal, rights=rights, key=key)
        if scope not in _LIMITED_SCOPES:
            yield admitted_request
            return
        with self.limiter.slot(key.limit_name if key else ""):
            yield admitted_request

    async def _authenticate(self, request: Request) -> Key:
        texts = extract_keys(
            request.headers.get("authorization"), request.headers.get("x-api-key"), request.subprotocols
        )
        found = {text: self._keys.find(text) for text in texts}
        keys = list(filter(None, found.values()))
        if self._keys.tokens is not None:
            tokens = [text for text, key in found.items() if key is None and looks_like_token(text)]
            if tokens:
                return await self._authenticate_token(request, tokens, keys)
        if len(keys) != 1:
            if texts and not keys:
                self._keys.check_loaded()
            message = "the request has two different keys" if keys else "the key is missing or unknown"
            raise UnauthenticatedError(message, hint="Send one key, as Authorization: Bearer or as x-api-key.")
        return keys[0]

    async def _authenticate_token(self, request: Request, tokens: list[str], keys: list[Key]) -> Key:
        if len(tokens) + len(keys) != 1:
            raise UnauthenticatedError("the request has two different keys or tokens", hint="Send one of them.")
        if tokens[0] not in extract_keys(request.headers.get("authorization"), None, request.subprotocols):
            raise UnauthenticatedError(
                "the token was sent as x-api-key", code="token_misplaced", hint="Send it as Authorization: Bearer."
            )
        caller = await self._keys.find_token_caller(tokens[0])
        if caller.config.rate or caller.config.width or caller.limit_name in self.limiter.key_slots:
            self.limiter.set_key(caller.limit_name, caller.config)
        return caller


def _scope_error(key: Key, scope: str) -> AuthorityError:
    what, remedy = ("token of", "Get a token with a role") if key.is_token else ("key", "Use a key")
    if scope == OPERATOR and ADMIN in key.rights:
        return AuthorityError(
            f"the {what} {key.config.name!r} administers its tenant, and not the gateway, which has several",
            hint=f"{remedy} that has operator = true. For your own tenant see /v1/traces and /v1/stats/tools.",
        )
    return AuthorityError(
        f"the {what} {key.config.name!r} does not have the scope {scope!r}", hint=f"{remedy} that has it."
    )
