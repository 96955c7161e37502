"""The caller's token: a signed statement of the principal, the call, the deadline and the remaining hops. No I/O.

A token is `grant.call.deadline.signature`. The grant is JSON and the same for all calls of a conversation at one depth,
so both sides cache it. The signature is HMAC-SHA256 over the text before it, with a key that gateway and workers share.
Each token has exactly one encoding: a change to any byte is refused. Anyone with the key can create tokens, so give
each tenant its own key.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.json_text import canonical
from ferrule.errors import AuthorityError, DefinitionError

LOCAL = "local"
_MIN_KEY_BYTES = 16
_MAX_HOPS = 1_000
_TIMESTAMP_DIGITS = 15
"""The maximum number of digits of a time in milliseconds."""
_CACHE_SIZE = 1_024
_BLOCK_BYTES = 64
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))
_REFUSED = "the worker does not accept this token"


def validate_key(key: bytes | None) -> bytes | None:
    """Return the key. Raises `DefinitionError` if it is too short to be safe."""
    if key is not None and len(key) < _MIN_KEY_BYTES:
        raise DefinitionError(
            f"a key needs at least {_MIN_KEY_BYTES} bytes", hint="Create one with: openssl rand -hex 32"
        )
    return key


def sign_token(context: CallContext, key: bytes | None, deadline: float, new_id: str = "") -> str:
    """Create the token of a call. Without a key it has no signature, and only a worker without a key accepts it.

    `new_id` is used for a call that has no id of its own.
    """
    grant = _encode_grant(context.principal, context.conversation, context.hops)
    call_id = binascii.b2a_base64((context.call_id or new_id).encode("utf-8", "surrogatepass"), newline=False)
    text = f"{grant}.{call_id.decode('ascii')}.{int(deadline * 1000)}"
    return f"{text}.{_signature(text.encode('ascii'), key).decode('ascii')}"


def verify_token(token: str, key: bytes | None, on_progress: Callable[[Progress], None]) -> CallContext:
    """Verify a token and return its call context. Raises `AuthorityError` if it was not signed with the key.

    Without a key only unsigned tokens of the tenant "local" are accepted: one user on one machine.
    """
    text, dot, signature = token.encode("utf-8", "surrogatepass").rpartition(b".")
    if not dot or not hmac.compare_digest(signature, _signature(text, key)):
        raise AuthorityError(_REFUSED, hint="Give the gateway and the workers the same key.")
    try:
        grant, call_id, deadline = text.split(b".")
        principal, conversation, hops = _decode_grant(grant)
        context = CallContext(
            call_id=binascii.a2b_base64(call_id, strict_mode=True).decode("utf-8", "surrogatepass"),
            conversation=conversation,
            principal=principal,
            deadline=_timestamp(deadline),
            hops=hops,
            on_progress=on_progress,
        )
    except (binascii.Error, ValueError, TypeError, KeyError, RecursionError) as problem:
        raise AuthorityError(_REFUSED, hint="It was not created by Ferrule.") from problem
    if key is None and principal.tenant != LOCAL:
        raise AuthorityError(_REFUSED, hint="Without a key the only tenant is 'local'.")
    return context


def _signature(text: bytes, key: bytes | None) -> bytes:
    """HMAC-SHA256. What depends only on the key is computed once, which takes a third off each call."""
    if key is None:
        return b""
    inner_start, outer_start = _key_hashes(key)
    inner, outer = inner_start.copy(), outer_start.copy()
    inner.update(text)
    outer.update(inner.digest())
    return binascii.b2a_base64(outer.digest(), newline=False)


@lru_cache(maxsize=_CACHE_SIZE)
def _key_hashes(key: bytes) -> tuple[Any, Any]:
    """The two hashes of HMAC (RFC 2104), each after its first block, which is made of the key alone."""
    block = (key if len(key) <= _BLOCK_BYTES else hashlib.sha256(key).digest()).ljust(_BLOCK_BYTES, b"\0")
    return hashlib.sha256(block.translate(_INNER_PAD)), hashlib.sha256(block.translate(_OUTER_PAD))


@lru_cache(maxsize=_CACHE_SIZE)
def _encode_grant(principal: Principal, conversation: str, hops: int) -> str:
    scopes = None if principal.scopes is None else sorted(principal.scopes)
    claims = {"conv": conversation, "hops": hops, "sub": principal.name, "scp": scopes, "ten": principal.tenant}
    text = canonical(claims).encode("utf-8", "surrogatepass")
    return binascii.b2a_base64(text, newline=False).decode("ascii")


@lru_cache(maxsize=_CACHE_SIZE)
def _decode_grant(text: bytes) -> tuple[Principal, str, int]:
    claims: Any = json.loads(binascii.a2b_base64(text, strict_mode=True).decode("utf-8", "surrogatepass"))
    scopes: Any = claims["scp"]
    covered = None if scopes is None else frozenset(map(_text, scopes))
    return Principal(_text(claims["sub"]), _text(claims["ten"]), covered), _text(claims["conv"]), _hops(claims["hops"])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _timestamp(digits: bytes) -> float:
    if not digits.isdigit() or len(digits) > _TIMESTAMP_DIGITS:
        raise ValueError("no moment")
    return int(digits) / 1000


def _hops(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_HOPS:
        raise TypeError("no number of hops")
    return value
