"""Keyring: finds the key that a text belongs to.

It holds hashes only, and a lookup takes the same steps whether the key exists or not. Must not know routes or requests.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from ferrule.core.context import Principal
from ferrule.errors import DefinitionError, UnauthenticatedError
from ferrule.run.ledger.keys import KeyRecord
from ferrule.server.config.config import KeyConfig
from ferrule.server.http import ADMIN, ANY, OPERATOR

_ALL = "*"
_DIGEST = hashlib.sha256().digest_size
_BEARER = "bearer "
KEY_PROTOCOL = "ferrule.key."
"""Prefix of a key in a WebSocket's subprotocols, the only header values that a browser lets a page set."""


SCOPE_CHECKS: Mapping[str, Callable[[KeyConfig], bool]] = {
    ANY: lambda key: True,
    "models": lambda key: bool(key.models),
    "tools": lambda key: bool(key.tools),
    "approve": lambda key: key.approve,
    ADMIN: lambda key: key.admin,
    OPERATOR: lambda key: key.operator,
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the configuration or of the ledger, with what follows from it. Only those of the ledger have an `id`."""

    config: KeyConfig
    principal: Principal
    rights: frozenset[str]
    limit_name: str
    """Under which its requests are counted: keys of one principal share their limits."""
    id: str = ""
    expires_at: float = math.inf
    is_revoked: bool = False
    is_token: bool = False
    """Whether it is the caller of a token of an identity provider."""

    @staticmethod
    def of(config: KeyConfig) -> Key:
        rights = frozenset(scope for scope, has in SCOPE_CHECKS.items() if has(config))
        return Key(config, principal_of(config), rights, config.name)

    @staticmethod
    def of_record(record: KeyRecord) -> Key:
        config = KeyConfig(name=record.name, sha256=record.sha256, tenant=record.tenant, **asdict(record.permissions))
        return replace(
            Key.of(config),
            # Names in the configuration are unique; in the ledger two tenants may have the same one.
            limit_name=f"{record.tenant}/{record.name}",
            id=record.id,
            expires_at=math.inf if record.expires_at is None else record.expires_at,
            is_revoked=record.revoked_at is not None,
        )

    def check(self, now: float) -> None:
        """Raise if it was revoked or has expired."""
        if self.is_revoked:
            raise revoked_error(self.config.name)
        if now >= self.expires_at:
            raise token_expired_error() if self.is_token else expired_error(self.config.name)


def revoked_error(name: str) -> UnauthenticatedError:
    return UnauthenticatedError(f"the key {name!r} was revoked", code="key_revoked", hint="Use another key.")


def expired_error(name: str) -> UnauthenticatedError:
    return UnauthenticatedError(f"the key {name!r} has expired", code="key_expired", hint="Use another key.")


def token_expired_error() -> UnauthenticatedError:
    return UnauthenticatedError(
        "the token has expired", code="token_expired", hint="Get a new token from the identity provider."
    )


class Keyring:
    """Keys, indexed by an HMAC of their hash under a secret of this process.

    A table lookup replaces a comparison with every key, so that ten thousand keys cost as much as one. Clients cannot
    predict where a text falls in the table, so the timing of a lookup reveals nothing.
    """

    __slots__ = ("_keys", "_no_match", "_secret")

    def __init__(self, keys: Iterable[KeyConfig | Key]) -> None:
        self._secret = secrets.token_bytes(32)
        self._keys: dict[bytes, tuple[bytes, Key]] = {}
        # Compared with when no key matches, so that the lookup takes the same steps.
        self._no_match = (secrets.token_bytes(_DIGEST), None)
        for one in keys:
            key = one if isinstance(one, Key) else Key.of(one)
            digest = _digest(key.config)
            slot = self._slot(digest)
            if slot in self._keys:
                raise DefinitionError(
                    f"the keys {self._keys[slot][1].config.name!r} and {key.config.name!r} are the same",
                    hint="Create a new one with `ferrule keys new`.",
                )
            self._keys[slot] = (digest, key)

    def find(self, text: str) -> Key | None:
        digest = hashlib.sha256(text.encode()).digest()
        stored_digest, key = self._keys.get(self._slot(digest), self._no_match)
        return key if hmac.compare_digest(stored_digest, digest) else None

    def _slot(self, digest: bytes) -> bytes:
        return hmac.digest(self._secret, digest, "sha256")


def extract_keys(authorization: str | None, api_key: str | None, subprotocols: Iterable[str] = ()) -> tuple[str, ...]:
    """Extract the keys of a request: OpenAI clients use `Authorization`, Anthropic clients `x-api-key`, some both."""
    header = authorization or ""
    bearer_key = header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else ""
    subprotocol_keys = [_subprotocol_key(one) for one in subprotocols if one.startswith(KEY_PROTOCOL)]
    return tuple(dict.fromkeys(filter(None, (bearer_key, (api_key or "").strip(), *subprotocol_keys))))


def _subprotocol_key(subprotocol: str) -> str:
    """Decode the key in a subprotocol: base64url without padding, because a subprotocol allows few characters."""
    text = subprotocol[len(KEY_PROTOCOL) :]
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        # Decoding ignores characters outside the alphabet. Encode again, so that a key has exactly one spelling.
        return raw.decode() if base64.urlsafe_b64encode(raw).decode().rstrip("=") == text else ""
    except ValueError:
        return ""


def principal_of(key: KeyConfig) -> Principal:
    """The principal of a key. Its scopes are tools by name, models as `model:NAME`, and sources as `source:NAME`."""
    sources = () if _ALL in key.sources else key.sources
    if not key.sources:
        # No source at all. A tool of none cannot be used by name either.
        return Principal(key.name, key.tenant, frozenset(f"model:{name}" for name in key.models))
    if _ALL in key.models and _ALL in key.tools and not sources:
        return Principal(key.name, key.tenant)
    scopes = (*key.tools, *(f"model:{name}" for name in key.models), *(f"source:{name}" for name in sources))
    return Principal(key.name, key.tenant, frozenset(scopes))


def _digest(key: KeyConfig) -> bytes:
    try:
        digest = bytes.fromhex(key.sha256)
    except ValueError:
        digest = b""
    if len(digest) != _DIGEST:
        raise DefinitionError(
            f"the key {key.name!r} needs a SHA-256 of 64 hexadecimal digits", hint="Create one with `ferrule keys new`."
        )
    return digest
