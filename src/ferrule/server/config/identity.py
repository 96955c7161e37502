"""IdentityConfig and RoleConfig: whose JSON Web Tokens are accepted as keys are, and what they grant."""

from __future__ import annotations

from dataclasses import dataclass

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""The signatures that may be allowed. With none, or with those of a shared secret (HS256 and others), everyone who can
verify a token can also make one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityConfig:
    """An identity provider (OpenID Connect). Callers send its tokens as `Authorization: Bearer`.

    The name of the table begins the name of each caller: `corp:ann`. So two providers cannot name the same caller.
    """

    name: str
    issuer: str
    """The issuer as it is in its tokens (`iss`), such as `https://login.example.com/`. It must be https, except on this
    machine."""
    audience: tuple[str, ...]
    """The audiences (`aud`) that its tokens may be for. A token for another service is refused."""
    jwks_uri: str = ""
    """Where its public keys are. If empty, its discovery document says it (`/.well-known/openid-configuration`)."""
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    """The signature algorithms that its tokens may have. Only asymmetric ones can be allowed."""
    principal_claim: str = "sub"
    """The claim with the caller's name."""
    tenant_claim: str = ""
    """The claim with the caller's tenant. If empty, all its callers belong to `tenant`."""
    tenant: str = "local"
    """The tenant of its callers if no claim says it."""
    tenants: tuple[str, ...] = ("*",)
    """Patterns of the tenants that the claim may name; others are refused."""
    role_claim: str = "roles"
    """The claim with the caller's roles: a list, or a text with spaces as in `scope`. `a.b` is the claim b inside a."""
    roles: tuple[str, ...] = ()
    """Roles that every caller of this provider has."""
    leeway_seconds: float = 30.0
    """How far the provider's clock may differ from this machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleConfig:
    """What a role of a token grants. The grants of several roles add up; of limits the highest counts."""

    name: str
    identity: str = ""
    """The only identity provider whose tokens have this role; empty for all of them."""
    models: tuple[str, ...] = ("*",)
    """Patterns of the models that the caller may use, "*" for all."""
    tools: tuple[str, ...] = ()
    """Patterns of the gateway's tools that the caller may use, such as `get_*`; "*" for all."""
    sources: tuple[str, ...] = ("*",)
    """Patterns of the sources whose tools the caller may use, as for keys."""
    approve: bool = False
    """Whether the caller may approve or deny pending calls."""
    admin: bool = False
    """Whether the caller may see what the whole tenant does, and manage the keys of the tenant, as for keys."""
    operator: bool = False
    """Whether the caller operates the gateway, as for keys. Let no tenant give this role to its own people."""
    rate: int = 0
    """The maximum number of requests per minute of each caller; 0 is no limit."""
    width: int = 0
    """The maximum number of simultaneous answers of each caller; 0 is no limit."""
