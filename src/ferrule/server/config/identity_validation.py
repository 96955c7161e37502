"""Validate the tables `identity` and `roles` of a configuration. Opens no connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ferrule.server.auth.issuer_keys import is_secure_url
from ferrule.server.config.identity import ALGORITHMS, IdentityConfig, RoleConfig
from ferrule.server.config.layers import ConfigProblem, format_path, suggest


def find_identity_errors(identities: Sequence[IdentityConfig], roles: Sequence[RoleConfig]) -> Iterator[ConfigProblem]:
    """Find the problems that prevent a gateway from starting."""
    for identity in identities:
        yield from _problems_of(identity, roles)
    for issuer, times in Counter(one.issuer for one in identities).items():
        if times > 1:
            names = " and ".join(one.name for one in identities if one.issuer == issuer)
            yield ConfigProblem("identity", f"{names} have the same issuer", "Keep one, with all audiences")
    known = [one.name for one in identities]
    for role in roles:
        if role.identity and role.identity not in known:
            yield ConfigProblem(
                format_path(("roles", role.name, "identity")),
                f"unknown identity provider {role.identity!r}",
                suggest(role.identity, known, "identity providers"),
            )


def _problems_of(identity: IdentityConfig, roles: Sequence[RoleConfig]) -> Iterator[ConfigProblem]:
    def path(setting: str) -> str:
        return format_path(("identity", identity.name, setting))

    if ":" in identity.name:
        yield ConfigProblem(format_path(("identity", identity.name)), "the name has a colon", "Choose another name")
    for setting in ("issuer", "jwks_uri"):
        url = getattr(identity, setting)
        if (url or setting == "issuer") and not is_secure_url(url):
            yield ConfigProblem(path(setting), "it is not an https URL", "Only on this machine, http is enough")
    if not any(identity.audience) or not all(identity.audience):
        yield ConfigProblem(path("audience"), "a token for any service would be accepted", "Name this gateway's own")
    wrong = [one for one in identity.algorithms if one not in ALGORITHMS]
    if wrong or not identity.algorithms:
        message = f"{wrong[0]!r} is no asymmetric signature algorithm" if wrong else "no algorithm is allowed"
        yield ConfigProblem(path("algorithms"), message, f"Choose among {', '.join(ALGORITHMS)}")
    if not any(role.identity in ("", identity.name) for role in roles):
        yield ConfigProblem(
            format_path(("identity", identity.name)),
            "its tokens grant nothing: no role is defined",
            "Write [roles.NAME] with what a role grants",
        )
    known = [role.name for role in roles]
    for name in identity.roles:
        if name not in known:
            yield ConfigProblem(path("roles"), f"unknown role {name!r}", suggest(name, known, "roles"))
