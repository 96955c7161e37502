"""Keyring: finds the key that a text belongs to.

It holds hashes only, and a lookup takes the same steps whether the key exists or not. Must not know routes or requests.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

from ferrule.core.context import Principal
from ferrule.errors import AuthorityError, DefinitionError
from ferrule.server.config.config import Config, KeyConfig

_ALL = "*"
_DIGEST = hashlib.sha256().digest_size
_BEARER = "bearer "
KEY_PROTOCOL = "ferrule.key."
"""Prefix of a key in a WebSocket's subprotocols, the only header values that a browser lets a page set."""


class Keyring:
    """Keys, indexed by an HMAC of their hash under a secret of this process.

    A table lookup replaces a comparison with every key, so that ten thousand keys cost as much as one. Clients cannot
    predict where a text falls in the table, so the timing of a lookup reveals nothing.
    """

    __slots__ = ("_keys", "_no_match", "_secret")

    def __init__(self, keys: Iterable[KeyConfig]) -> None:
        self._secret = secrets.token_bytes(32)
        self._keys: dict[bytes, tuple[bytes, KeyConfig]] = {}
        # Compared with when no key matches, so that the lookup takes the same steps.
        self._no_match = (secrets.token_bytes(_DIGEST), None)
        for key in keys:
            digest = _digest(key)
            slot = self._slot(digest)
            if slot in self._keys:
                raise DefinitionError(
                    f"the keys {self._keys[slot][1].name!r} and {key.name!r} are the same",
                    hint="Create a new one with `ferrule keys new`.",
                )
            self._keys[slot] = (digest, key)

    def find(self, text: str) -> KeyConfig | None:
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
    """The principal of a key. Its scopes are tools by name and models as `model:NAME`."""
    if _ALL in key.models and _ALL in key.tools:
        return Principal(key.name, key.tenant)
    return Principal(key.name, key.tenant, frozenset((*key.tools, *(f"model:{name}" for name in key.models))))


def current_principal(config: Config, name: str, tenant: str) -> Principal:
    """Return the owner of a stored request with their current rights. Raises if the owner has no key any more."""
    if not config.keys:
        return Principal(name, tenant)
    key = next((one for one in config.keys if (one.name, one.tenant) == (name, tenant)), None)
    if key is None:
        raise AuthorityError(f"{name} no longer has a key", hint="Send the request again with another key.")
    return principal_of(key)


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
