"""An identity provider for tests: it publishes keys on this machine and signs tokens, also wrong ones."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from ferrule.server.config.config import Config, KeyConfig
from ferrule.server.config.identity import IdentityConfig, RoleConfig
from lab.loopback_server import loopback_server
from server.keys import config_with_keys

AUDIENCE = "https://gateway.example"
ROLES = (
    RoleConfig(name="user", tools=("get_*",)),
    RoleConfig(name="approver", models=(), sources=(), approve=True),
    RoleConfig(name="admin", tools=("*",), admin=True),
)


@cache
def private_key(algorithm: str, number: int = 0, bits: int = 2048) -> Any:
    """A private key for an algorithm; the same for the same number."""
    if algorithm.startswith("ES"):
        return ec.generate_private_key({"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65_537, bits)


def public_jwk(algorithm: str, key: Any, key_id: str) -> dict[str, Any]:
    text = get_default_algorithms()[algorithm].to_jwk(key.public_key())
    return {**json.loads(text), "kid": key_id, "alg": algorithm, "use": "sig"}


def public_pem(key: Any) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form)


def segment(value: Mapping[str, Any] | bytes) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def unsigned(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    return f"{segment(header)}.{segment(claims)}."


def signed_with_secret(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes) -> str:
    """A token with the signature of a shared secret (HS256), which PyJWT does not make of a public key."""
    text = f"{segment(header)}.{segment(claims)}"
    return f"{text}.{segment(hmac.digest(secret, text.encode(), hashlib.sha256))}"


@dataclass(slots=True)
class Issuer:
    """`keys` are what it publishes; `pages` overwrite what it answers under a path: status, headers and body."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(
        default_factory=dict[str, tuple[int, dict[str, str], bytes]]
    )
    requests: list[str] = field(default_factory=list[str])

    def publish(self, algorithm: str = "ES256", number: int = 0) -> None:
        key = public_jwk(algorithm, private_key(algorithm, number), f"{algorithm}-{number}")
        if key not in self.keys:
            self.keys.append(key)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a valid token; None removes one."""
        now = int(time.time())
        claims = {
            **{"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 3600},
            **{"roles": ["user"], "tenant": "acme"},
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, algorithm: str = "ES256", number: int = 0, header: Any = None, **claims: Any) -> str:
        headers = {"kid": f"{algorithm}-{number}", **(header or {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        return jwt.encode(self.claims(**claims), private_key(algorithm, number), algorithm, headers)

    def identity(self, **changes: Any) -> IdentityConfig:
        settings = {"name": "corp", "issuer": self.url, "audience": (AUDIENCE,), "tenant_claim": "tenant", **changes}
        return IdentityConfig(**settings)

    def config(self, *keys: KeyConfig, defined_roles: tuple[RoleConfig, ...] = ROLES, **changes: Any) -> Config:
        config = config_with_keys(*keys)
        return Config(engines=config.engines, keys=keys, identity=(self.identity(**changes),), roles=defined_roles)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if path in self.pages:
            return self.pages[path]
        if path == "/.well-known/openid-configuration":
            return 200, {}, json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}).encode()
        return 200, {}, json.dumps({"keys": self.keys}).encode()

    @property
    def fetches(self) -> int:
        return self.requests.count("/jwks")


@contextmanager
def issuer() -> Generator[Issuer]:
    """An issuer with one published key."""
    one = Issuer()
    one.publish()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            one.requests.append(self.path)
            status, headers, body = one.answer(self.path)
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with loopback_server(Handler) as url:
        one.url = url
        yield one
