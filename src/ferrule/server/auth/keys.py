"""Keyring: whose key a text is. Holds hashes only, and finds one in the same steps whether it is there or not.

Must not know routes or requests.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

from ferrule.core.context import Principal
from ferrule.errors import DefinitionError
from ferrule.server.config.config import KeyConfig

_ALL = "*"
_DIGEST = hashlib.sha256().digest_size
_BEARER = "bearer "
KEY_PROTOCOL = "ferrule.key."
"""What a page puts before its key among a WebSocket's subprotocols, the only words that a browser lets it send."""


class Keyring:
    """Keys by the hash of their hash under a secret of this process.

    A table is looked into and not every key compared, so that ten thousand keys cost what one does; since nobody
    outside can know where a text falls in it, the time that it takes tells nothing.
    """

    __slots__ = ("_keys", "_nobody", "_secret")

    def __init__(self, keys: Iterable[KeyConfig]) -> None:
        self._secret = secrets.token_bytes(32)
        self._keys: dict[bytes, tuple[bytes, KeyConfig]] = {}
        self._nobody = (secrets.token_bytes(_DIGEST), None)
        for key in keys:
            digest = _digest(key)
            place = self._place(digest)
            if place in self._keys:
                raise DefinitionError(
                    f"the keys {self._keys[place][1].name!r} and {key.name!r} are the same", hint="Make a new one."
                )
            self._keys[place] = (digest, key)

    def find(self, text: str) -> KeyConfig | None:
        given = hashlib.sha256(text.encode()).digest()
        held, key = self._keys.get(self._place(given), self._nobody)
        return key if hmac.compare_digest(held, given) else None

    def _place(self, digest: bytes) -> bytes:
        return hmac.digest(self._secret, digest, "sha256")


def given_keys(authorization: str | None, api_key: str | None, subprotocols: Iterable[str] = ()) -> tuple[str, ...]:
    """The keys that a request shows: OpenAI's clients use the one header, Anthropic's the other, some both."""
    bearer = authorization or ""
    shown = bearer[len(_BEARER) :].strip() if bearer[: len(_BEARER)].lower() == _BEARER else ""
    offered = [_offered_key(one) for one in subprotocols if one.startswith(KEY_PROTOCOL)]
    return tuple(dict.fromkeys(filter(None, (shown, (api_key or "").strip(), *offered))))


def _offered_key(subprotocol: str) -> str:
    """The key in a subprotocol: base64url without padding, since a key may hold what a subprotocol may not."""
    text = subprotocol[len(KEY_PROTOCOL) :]
    try:
        spelled = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        # What is not in the alphabet is passed over when it is decoded: one key has one spelling.
        return spelled.decode() if base64.urlsafe_b64encode(spelled).decode().rstrip("=") == text else ""
    except ValueError:
        return ""


def principal_of(key: KeyConfig) -> Principal:
    """Who a key stands for, with what he may use: tools by name, models as `model:name`."""
    if _ALL in key.models and _ALL in key.tools:
        return Principal(key.name, key.tenant)
    return Principal(key.name, key.tenant, frozenset((*key.tools, *(f"model:{name}" for name in key.models))))


def _digest(key: KeyConfig) -> bytes:
    try:
        digest = bytes.fromhex(key.sha256)
    except ValueError:
        digest = b""
    if len(digest) != _DIGEST:
        raise DefinitionError(
            f"the key {key.name!r} has no SHA-256 of 64 hexadecimal digits", hint="Make one with `ferrule keys new`."
        )
    return digest
