"""TokenVerifier: who sends a JSON Web Token. The only module that imports PyJWT.

What a token says of itself decides nothing before its signature is verified: its issuer only selects the provider whose
keys and algorithms count. Keys inside a token, or at a URL that it names, are never used. Verified tokens are kept in
memory until they expire, so that a second request with one costs a hash.

The errors say what is wrong and never contain the token or a claim that was not verified.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from ferrule.errors import DefinitionError, UnauthenticatedError
from ferrule.server.auth.claims import SEPARATOR, caller_of
from ferrule.server.auth.issuer_keys import Fetch, IssuerKeys, Jwk, fetch_keys
from ferrule.server.auth.keys import Key, token_expired_error
from ferrule.server.config.config import Config
from ferrule.server.config.identity import ALGORITHMS, IdentityConfig

MAX_TOKEN_CHARS = 16_384
MAX_KEPT = 10_000
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES = {"ES256": ("P-256",), "ES384": ("P-384",), "ES512": ("P-521",), "EdDSA": ("Ed25519", "Ed448")}
_NEW_TOKEN = "Get a new token from the identity provider."


def looks_like_token(text: str) -> bool:
    """Whether a text has the form of a signed JSON Web Token. Keys of this gateway have no dots."""
    return _TOKEN.fullmatch(text) is not None


class TokenVerifier:
    """Verifies the tokens of the configured identity providers. Needs `pip install "ferrule[identity]"`."""

    def __init__(
        self,
        config: Config,
        on_failure: Callable[[str, str], None] = lambda name, reason: None,
        previous: TokenVerifier | None = None,
        fetch: Fetch = fetch_keys,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`previous` is the verifier before a reload: the keys of providers that stay the same stay known."""
        self._jwt = _import_jwt()
        self._identities = {one.issuer: one for one in config.identity}
        self._roles = config.roles
        self._clock = clock
        self._kept: dict[bytes, Key] = {}
        known: dict[IdentityConfig, IssuerKeys] = (
            {keys.identity: keys for keys in previous.keys.values()} if previous else {}
        )
        self.keys: dict[str, IssuerKeys] = {
            one.issuer: known.get(one) or IssuerKeys(one, fetch=fetch, on_failure=on_failure) for one in config.identity
        }
        for keys in self.keys.values():
            keys.on_change = self._forget

    async def find(self, token: str) -> Key:
        """Return the caller who sends a token. Raises if it is not valid."""
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock()
        caller = self._kept.get(digest)
        if caller is not None:
            if now < caller.expires_at:
                return caller
            del self._kept[digest]
            raise token_expired_error()
        caller = await self._verify(token)
        if len(self._kept) >= MAX_KEPT:
            self._kept = {key: one for key, one in self._kept.items() if now < one.expires_at}
            while len(self._kept) >= MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[digest] = caller
        return caller

    def names(self, principal: str) -> bool:
        """Whether a principal has a name that callers of a provider have."""
        name, separator, _ = principal.partition(SEPARATOR)
        return bool(separator) and any(one.name == name for one in self._identities.values())

    def renew_keys(self) -> None:
        """Begin to fetch the keys that are due for it. Call it from time to time."""
        for keys in self.keys.values():
            keys.renew()

    async def close(self) -> None:
        for keys in self.keys.values():
            await keys.close()

    def _forget(self) -> None:
        """Verify every token again: the key that signed it may have been withdrawn."""
        self._kept.clear()

    async def _verify(self, token: str) -> Key:
        header, identity = self._read(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS or algorithm not in identity.algorithms:
            raise _error(
                "token_algorithm",
                "the token has a signature algorithm that is not accepted",
                f"Let the identity provider sign with one of {', '.join(identity.algorithms)}.",
            )
        key_id = header.get("kid")
        found = await self.keys[identity.issuer].find(key_id)
        usable = [key for key in found if _is_usable(key, algorithm)]
        if len(usable) != 1:
            # Without an id, a choice among several keys would be a guess.
            raise _error(
                "token_unknown_key",
                "the token was signed with a key that its identity provider does not publish",
                f"{_NEW_TOKEN} If the key is new, try again in some seconds.",
            )
        return caller_of(self._decode(token, usable[0], algorithm, identity), identity, self._roles)

    def _read(self, token: str) -> tuple[Mapping[str, Any], IdentityConfig]:
        """Read the header, and find the provider that the token says it is of. Nothing is verified yet."""
        if len(token) > MAX_TOKEN_CHARS:
            raise _error("token_malformed", "the token is too long", f"Send at most {MAX_TOKEN_CHARS} characters.")
        try:
            header: Mapping[str, Any] = self._jwt.get_unverified_header(token)
            claims: Mapping[str, Any] = self._jwt.decode(token, options={"verify_signature": False})
        # RecursionError: of JSON that is nested thousands of times.
        except (self._jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise _error("token_malformed", "the token is not a valid JSON Web Token", _NEW_TOKEN) from None
        issuer = claims.get("iss")
        identity = self._identities.get(issuer) if isinstance(issuer, str) else None
        if identity is None:
            raise _error(
                "token_issuer",
                "the token is of an identity provider that is not accepted here",
                "Get a token from the identity provider of this gateway.",
            )
        return header, identity

    def _decode(self, token: str, key: Jwk, algorithm: str, identity: IdentityConfig) -> dict[str, Any]:
        """Verify the signature, then the times, the issuer and the audience."""
        jwt = self._jwt
        try:
            return jwt.decode(
                token,
                jwt.PyJWK(key, algorithm),
                algorithms=[algorithm],
                audience=list(identity.audience),
                issuer=identity.issuer,
                leeway=identity.leeway_seconds,
                options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
            )
        except jwt.ExpiredSignatureError:
            raise token_expired_error() from None
        except jwt.ImmatureSignatureError:
            raise _error("token_not_yet_valid", "the token is not valid yet", "Try again later.") from None
        except jwt.InvalidAudienceError:
            raise _audience_error(identity) from None
        except jwt.MissingRequiredClaimError as missing:
            if missing.claim == "aud":
                raise _audience_error(identity) from None
            raise _error("token_claims", f"the token has no claim {missing.claim!r}", _NEW_TOKEN) from None
        except jwt.InvalidSignatureError:
            raise _error("token_signature", "the signature of the token is not valid", _NEW_TOKEN) from None
        except (jwt.InvalidKeyError, jwt.PyJWKError):
            raise _error(
                "token_unknown_key", "the key of the token is too short or damaged", "Replace it at the provider."
            ) from None
        # OverflowError: of a time that is infinite.
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise _error("token_claims", "a claim of the token has a value that is not valid", _NEW_TOKEN) from None


def _is_usable(key: Jwk, algorithm: str) -> bool:
    """Whether a key is for verifying signatures of an algorithm."""
    operations = key.get("key_ops")
    return (
        key.get("kty") == _KEY_TYPES[algorithm[:2]]
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
        and (not isinstance(operations, list) or "verify" in cast("list[object]", operations))
        and (algorithm not in _CURVES or key.get("crv") in _CURVES[algorithm])
    )


def _audience_error(identity: IdentityConfig) -> UnauthenticatedError:
    return _error(
        "token_audience",
        "the token is for another audience",
        f"Request a token for the audience {' or '.join(identity.audience)}.",
    )


def _error(code: str, message: str, hint: str) -> UnauthenticatedError:
    return UnauthenticatedError(message, code=code, hint=hint)


def _import_jwt() -> Any:
    try:
        import jwt
    except ImportError as error:
        raise DefinitionError(
            "tokens of identity providers need PyJWT", code="missing_package", hint='pip install "ferrule[identity]"'
        ) from error
    return jwt
