"""The caller's token: a short signed statement of who asks, for what, until when and how deep. No clock, no IO.

`grant.call.deadline.signature`: the grant is JSON and the same for all calls of a conversation at one depth, so both
sides keep it read. The signature is HMAC-SHA256 over the text before it, with a key that gateway and workers share;
there is one spelling of a token, and a changed byte anywhere is refused. Whoever holds the key can write tokens: give
each tenant its own.
"""

from __future__ import annotations

import binascii
import hmac
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.json_text import canonical
from ferrule.errors import AuthorityError, DefinitionError

LOCAL = "local"
_SHORTEST_KEY = 16
_MOST_HOPS = 1_000
_LONGEST_MOMENT = 15
"""Milliseconds in digits."""
_KEPT = 1_024
_REFUSED = "the token is not one that this worker accepts"


def checked_key(key: bytes | None) -> bytes | None:
    """The key, refused where it is too short to keep anybody out."""
    if key is not None and len(key) < _SHORTEST_KEY:
        raise DefinitionError(f"a key has at least {_SHORTEST_KEY} bytes", hint="Make one: openssl rand -hex 32")
    return key


def signed(context: CallContext, key: bytes | None, deadline: float, new_id: str = "") -> str:
    """The token of a call; without a key it bears no signature, and only a laptop's worker takes it.

    `new_id` is for a call that has no id of its own.
    """
    grant = _grant(context.principal, context.conversation, context.hops)
    call_id = binascii.b2a_base64((context.call_id or new_id).encode("utf-8", "surrogatepass"), newline=False)
    text = f"{grant}.{call_id.decode('ascii')}.{int(deadline * 1000)}"
    return f"{text}.{_signature(text.encode('ascii'), key).decode('ascii')}"


def verified(token: str, key: bytes | None, tell: Callable[[Progress], None]) -> CallContext:
    """The context that a token states, with `tell` put in; `AuthorityError` for one not written with the key.

    Without a key only unsigned tokens of the tenant "local" are taken: one person, one machine.
    """
    text, dot, signature = token.encode("utf-8", "surrogatepass").rpartition(b".")
    if not dot or not hmac.compare_digest(signature, _signature(text, key)):
        raise AuthorityError(_REFUSED, hint="Gateway and workers need the same key.")
    try:
        grant, call_id, deadline = text.split(b".")
        who, conversation, hops = _granted(grant)
        context = CallContext(
            call_id=binascii.a2b_base64(call_id, strict_mode=True).decode("utf-8", "surrogatepass"),
            conversation=conversation,
            principal=who,
            deadline=_moment(deadline),
            hops=hops,
            tell=tell,
        )
    except (binascii.Error, ValueError, TypeError, KeyError, RecursionError) as problem:
        raise AuthorityError(_REFUSED, hint="It was written by something else.") from problem
    if key is None and who.tenant != LOCAL:
        raise AuthorityError(_REFUSED, hint="Without a key there is only the tenant 'local'.")
    return context


def _signature(text: bytes, key: bytes | None) -> bytes:
    return b"" if key is None else binascii.b2a_base64(hmac.digest(key, text, "sha256"), newline=False)


@lru_cache(maxsize=_KEPT)
def _grant(who: Principal, conversation: str, hops: int) -> str:
    scopes = None if who.scopes is None else sorted(who.scopes)
    stated = {"conv": conversation, "hops": hops, "sub": who.name, "scp": scopes, "ten": who.tenant}
    text = canonical(stated).encode("utf-8", "surrogatepass")
    return binascii.b2a_base64(text, newline=False).decode("ascii")


@lru_cache(maxsize=_KEPT)
def _granted(text: bytes) -> tuple[Principal, str, int]:
    found: Any = json.loads(binascii.a2b_base64(text, strict_mode=True).decode("utf-8", "surrogatepass"))
    scopes: Any = found["scp"]
    covered = None if scopes is None else frozenset(map(_text, scopes))
    return Principal(_text(found["sub"]), _text(found["ten"]), covered), _text(found["conv"]), _hops(found["hops"])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _moment(digits: bytes) -> float:
    if not digits.isdigit() or len(digits) > _LONGEST_MOMENT:
        raise ValueError("no moment")
    return int(digits) / 1000


def _hops(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_HOPS:
        raise TypeError("no number of hops")
    return value
