"""Tokens of an identity provider: which are accepted, and what is said of the others."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ferrule.errors import AuthorityError, FerruleError, IdentityUnavailableError, UnauthenticatedError
from ferrule.server.auth import issuer_keys
from ferrule.server.auth.issuer_keys import MAX_AGE_SECONDS, REFETCH_SECONDS, RENEW_SECONDS, is_secure_url
from ferrule.server.auth.keys import Key
from ferrule.server.auth.tokens import MAX_TOKEN_CHARS, TokenVerifier, looks_like_token
from ferrule.server.config.config import Config
from ferrule.server.config.identity import RoleConfig
from server.issuer import AUDIENCE, Issuer, issuer, private_key, public_jwk, public_pem, signed_with_secret, unsigned

HOUR = 3600


@pytest.fixture
def provider() -> Iterator[Issuer]:
    with issuer() as one:
        yield one


def run(config: Config, scenario: Callable[[TokenVerifier], Awaitable[Any]]) -> Any:
    async def story() -> Any:
        verifier = TokenVerifier(config)
        try:
            return await scenario(verifier)
        finally:
            await verifier.close()

    return asyncio.run(story())


def caller(provider: Issuer, token: str, **changes: Any) -> Key:
    return run(provider.config(**changes), lambda verifier: verifier.find(token))


def refusal(provider: Issuer, token: str, **changes: Any) -> FerruleError:
    with pytest.raises(FerruleError) as raised:
        caller(provider, token, **changes)
    # Nobody who reads a log or an error finds the token in it.
    assert all(part not in f"{raised.value} {raised.value.hint}" for part in token.split(".") if len(part) > 3)
    assert raised.value.hint
    return raised.value


def code(provider: Issuer, token: str, **changes: Any) -> str:
    error = refusal(provider, token, **changes)
    assert isinstance(error, UnauthenticatedError)
    return error.code


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "RS256", "PS256", "EdDSA"])
def test_a_signed_token_names_its_caller_and_what_its_roles_grant(provider: Issuer, algorithm: str) -> None:
    provider.publish(algorithm)
    algorithms = ("ES256", "ES384", "RS256", "PS256", "EdDSA")
    found = caller(provider, provider.token(algorithm), algorithms=algorithms)
    assert (found.principal.name, found.principal.tenant) == ("corp:ann", "acme")
    assert found.principal.scopes == {"get_*", "model:*"}
    assert found.rights == {"any", "models", "tools"}
    assert found.is_token
    assert found.expires_at > time.time() + HOUR - 60


def test_a_token_without_a_signature_is_refused_whatever_its_algorithm_is_called(provider: Issuer) -> None:
    for name in ("none", "None", "nOnE", ""):
        assert code(provider, unsigned({"alg": name, "kid": "ES256-0"}, provider.claims())) == "token_algorithm"
    forged = provider.token().rpartition(".")[0]
    assert code(provider, f"{forged}.") == "token_signature"


def test_the_public_key_is_no_secret_that_signs(provider: Issuer) -> None:
    provider.publish("RS256")
    key = private_key("RS256")
    for secret in (public_pem(key), json.dumps(provider.keys[-1]).encode()):
        for algorithms in (("RS256",), ("RS256", "HS256")):
            token = signed_with_secret({"alg": "HS256", "kid": "RS256-0"}, provider.claims(), secret)
            assert code(provider, token, algorithms=algorithms) == "token_algorithm"
    # Nor is a secret that the provider publishes by mistake.
    provider.keys.append({"kty": "oct", "kid": "s", "k": "c2VjcmV0"})
    token = signed_with_secret({"alg": "ES256", "kid": "s"}, provider.claims(), b"secret")
    assert code(provider, token) == "token_unknown_key"


def test_an_algorithm_that_is_not_allowed_is_refused_even_if_the_key_fits(provider: Issuer) -> None:
    provider.publish("ES384")
    error = refusal(provider, provider.token("ES384"))
    assert (error.code, "ES256" in error.hint) == ("token_algorithm", True)


def test_a_token_lives_from_nbf_to_exp_with_a_little_leeway(provider: Issuer) -> None:
    now = int(time.time())
    assert caller(provider, provider.token(exp=now - 5, nbf=now + 25)).config.name == "corp:ann"
    assert code(provider, provider.token(exp=now - HOUR)) == "token_expired"
    assert code(provider, provider.token(nbf=now + HOUR)) == "token_not_yet_valid"
    assert code(provider, provider.token(iat=now + HOUR)) == "token_not_yet_valid"
    assert code(provider, provider.token(exp=now - 5), leeway_seconds=1.0) == "token_expired"


def test_a_kept_token_expires_too(provider: Issuer) -> None:
    async def scenario(verifier: TokenVerifier) -> None:
        token = provider.token()
        found = await verifier.find(token)
        assert await verifier.find(token) is found
        verifier._clock = lambda: time.time() + 2 * HOUR
        with pytest.raises(UnauthenticatedError) as raised:
            await verifier.find(token)
        assert raised.value.code == "token_expired"

    run(provider.config(), scenario)


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"aud": "https://other.example"}, "token_audience"),
        ({"aud": ["https://other.example", "https://third.example"]}, "token_audience"),
        ({"aud": None}, "token_audience"),
        ({"aud": {"https://gateway.example": 1}}, "token_audience"),
        ({"iss": "https://evil.example"}, "token_issuer"),
        ({"iss": None}, "token_issuer"),
        ({"iss": ["https://evil.example"]}, "token_issuer"),
        ({"exp": None}, "token_claims"),
        ({"exp": "soon"}, "token_claims"),
        ({"sub": None}, "token_claims"),
        ({"sub": ""}, "token_claims"),
        ({"sub": "a\nb"}, "token_claims"),
        ({"sub": "a" * 300}, "token_claims"),
        ({"tenant": None}, "token_claims"),
        ({"tenant": ["acme", "evil"]}, "token_claims"),
    ],
    ids=str,
)
def test_a_wrong_claim_is_refused_with_a_code_of_its_own(
    provider: Issuer, changes: dict[str, Any], expected: str
) -> None:
    claims = provider.claims(**changes)
    # PyJWT makes no token whose issuer is no text.
    token = unsigned({"alg": "ES256", "kid": "ES256-0"}, claims) if "iss" in changes else provider.token(**changes)
    assert code(provider, token) == expected


def test_one_audience_of_several_is_enough_on_both_sides(provider: Issuer) -> None:
    token = provider.token(aud=["https://other.example", AUDIENCE])
    assert caller(provider, token, audience=("urn:ferrule", AUDIENCE)).config.name == "corp:ann"


def test_a_key_that_a_token_brings_itself_is_never_used(provider: Issuer) -> None:
    own = public_jwk("ES256", private_key("ES256", 7), "ES256-7")
    for header in ({"jwk": own}, {"jku": f"{provider.url}/evil"}, {"x5u": f"{provider.url}/evil"}, {}):
        assert code(provider, provider.token(number=7, header=header)) == "token_unknown_key"
        # Under the id of a published key.
        stolen = provider.token(number=7, header={**header, "kid": "ES256-0"})
        assert code(provider, stolen) == "token_signature"
    assert "/evil" not in provider.requests


def test_a_token_with_a_critical_extension_is_refused(provider: Issuer) -> None:
    header = {"alg": "ES256", "kid": "ES256-0", "crit": ["x"], "x": 1}
    assert code(provider, unsigned(header, provider.claims())) == "token_malformed"


@pytest.mark.parametrize("text", ["a.b.c", "eyJ.eyJ.x", "e30.e30.", "e30.W10.e30", "W10.e30.e30", "bnVsbA.bnVsbA.e30"])
def test_a_text_that_only_looks_like_a_token_is_refused(provider: Issuer, text: str) -> None:
    assert looks_like_token(text)
    assert code(provider, text) in ("token_malformed", "token_issuer")


def test_a_token_that_is_too_long_or_too_deep_is_refused(provider: Issuer) -> None:
    assert code(provider, provider.token(more="x" * MAX_TOKEN_CHARS)) == "token_malformed"
    deep = b'{"alg":' + b"[" * 6_000 + b"]" * 6_000 + b"}"
    from server.issuer import segment

    for parts in ((deep, b"{}"), (b'{"alg":"ES256"}', deep)):
        assert code(provider, f"{segment(parts[0])}.{segment(parts[1])}.c2ln") in ("token_malformed", "token_issuer")


def test_keys_of_this_gateway_do_not_look_like_tokens() -> None:
    for text in ("fk_abc-DEF_123", "", "a.b", "a.b.c.d", "a.b c.d", "ann-of-acme"):
        assert not looks_like_token(text)


@pytest.mark.parametrize(
    "change", [{"use": "enc"}, {"key_ops": ["sign"]}, {"alg": "ES384"}, {"crv": "P-384"}, {"kty": "RSA"}], ids=str
)
def test_a_key_for_something_else_verifies_nothing(provider: Issuer, change: dict[str, Any]) -> None:
    provider.keys[0] |= change
    assert code(provider, provider.token()) == "token_unknown_key"


def test_a_damaged_or_short_key_verifies_nothing_and_the_others_do(provider: Issuer) -> None:
    provider.publish("RS256")
    provider.keys[:0] = [{"kid": "ES256-9", "kty": "EC", "crv": "P-256", "x": "?", "y": "?"}, {}]
    weak = private_key("RS256", 3, bits=1024)
    provider.keys.append(public_jwk("RS256", weak, "weak"))
    assert caller(provider, provider.token("RS256")).config.name == "corp:ann"
    assert code(provider, provider.token(header={"kid": "ES256-9"})) == "token_unknown_key"
    import jwt

    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = jwt.encode(provider.claims(), weak, "RS256", {"kid": "weak"})
    assert code(provider, token) == "token_unknown_key"


def test_without_a_key_id_the_only_key_of_the_algorithm_is_used_and_none_of_several(provider: Issuer) -> None:
    provider.publish("RS256")
    token = provider.token(header={"kid": None})
    assert caller(provider, token).config.name == "corp:ann"
    provider.publish(number=1)
    assert code(provider, token) == "token_unknown_key"


def test_a_hundred_requests_with_unknown_keys_cause_one_fetch_and_the_next_ones_none(provider: Issuer) -> None:
    async def scenario(verifier: TokenVerifier) -> None:
        keys = verifier.keys[provider.url]
        now = 0.0
        keys.clock = lambda: now
        await verifier.find(provider.token())
        now = REFETCH_SECONDS
        tokens = [provider.token(header={"kid": f"guess-{at}"}) for at in range(100)]
        for _ in range(2):
            refused = await asyncio.gather(*map(verifier.find, tokens), return_exceptions=True)
            assert {getattr(one, "code", "") for one in refused} == {"token_unknown_key"}
            assert provider.fetches == 2

    run(provider.config(), scenario)


def test_a_request_that_is_cancelled_does_not_end_the_fetch_of_the_others(provider: Issuer) -> None:
    async def scenario(verifier: TokenVerifier) -> None:
        first = asyncio.ensure_future(verifier.find(provider.token()))
        second = asyncio.ensure_future(verifier.find(provider.token(sub="bob")))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).config.name == "corp:bob"
        assert provider.fetches == 1

    run(provider.config(), scenario)


def test_a_rotated_key_is_taken_up_and_a_withdrawn_one_ends(provider: Issuer) -> None:
    async def scenario(verifier: TokenVerifier) -> None:
        keys = verifier.keys[provider.url]
        now = 0.0
        keys.clock = lambda: now
        old = provider.token()
        await verifier.find(old)
        provider.publish(number=1)
        with pytest.raises(UnauthenticatedError):
            # Not so soon after the last fetch.
            await verifier.find(provider.token(number=1))
        now = REFETCH_SECONDS
        assert (await verifier.find(provider.token(number=1))).config.name == "corp:ann"
        assert (await verifier.find(old)).config.name == "corp:ann"
        del provider.keys[0]
        now += RENEW_SECONDS
        verifier.renew_keys()
        assert keys._fetching is not None
        await keys._fetching
        with pytest.raises(UnauthenticatedError) as raised:
            # Also a token that was verified before.
            await verifier.find(old)
        assert raised.value.code == "token_unknown_key"

    run(provider.config(), scenario)


def test_known_keys_are_used_while_the_provider_is_away_and_not_for_ever(provider: Issuer) -> None:
    failures: list[tuple[str, str]] = []

    async def scenario(verifier: TokenVerifier) -> None:
        keys = verifier.keys[provider.url]
        keys.on_failure = lambda name, reason: failures.append((name, reason))
        now = 0.0
        keys.clock = lambda: now
        provider.pages["/jwks"] = (503, {}, b"")
        with pytest.raises(IdentityUnavailableError) as raised:
            await verifier.find(provider.token())
        assert raised.value.retryable
        assert "503" not in raised.value.message
        assert failures == [("corp", f"{provider.url}/jwks answered with status 503")]
        del provider.pages["/jwks"]
        now = REFETCH_SECONDS
        await verifier.find(provider.token())
        provider.pages["/jwks"] = (503, {}, b"")
        now += RENEW_SECONDS
        verifier.renew_keys()
        assert (await verifier.find(provider.token(sub="bob"))).config.name == "corp:bob"
        now += MAX_AGE_SECONDS
        with pytest.raises(IdentityUnavailableError):
            await verifier.find(provider.token(sub="eve"))

    run(provider.config(), scenario)


def test_a_reload_keeps_the_keys_of_a_provider_that_stays(provider: Issuer) -> None:
    async def scenario(verifier: TokenVerifier) -> None:
        token = provider.token()
        await verifier.find(token)
        config = provider.config()
        narrower = replace(config, roles=(RoleConfig(name="user"),))
        after = TokenVerifier(narrower, previous=verifier)
        assert (await after.find(token)).principal.scopes == {"model:*"}
        assert provider.fetches == 1

    run(provider.config(), scenario)


PAGES: dict[str, dict[str, tuple[int, dict[str, str], bytes]]] = {
    "too large": {"/jwks": (200, {}, b" " * (issuer_keys.MAX_BYTES + 1))},
    "endless": {"/jwks": (200, {"content-length": "100000000000"}, b" " * (issuer_keys.MAX_BYTES + 70_000))},
    "compressed": {"/jwks": (200, {"content-encoding": "gzip"}, gzip.compress(b" " * 10_000_000))},
    "elsewhere": {"/jwks": (302, {"location": "http://localhost:1/jwks"}, b"")},
    "no JSON": {"/jwks": (200, {}, b"<html>")},
    "deep JSON": {"/jwks": (200, {}, b"[" * 100_000)},
    "no object": {"/jwks": (200, {}, b"[]")},
    "no keys": {"/jwks": (200, {}, b'{"keys": {}}')},
    "too many keys": {"/jwks": (200, {}, json.dumps({"keys": [{}] * 101}).encode())},
    "no discovery": {"/.well-known/openid-configuration": (404, {}, b"")},
    "plain http elsewhere": {
        "/.well-known/openid-configuration": (200, {}, b'{"issuer": "URL", "jwks_uri": "http://evil.example/jwks"}')
    },
    "another issuer": {
        "/.well-known/openid-configuration": (200, {}, b'{"issuer": "https://other", "jwks_uri": "URL/jwks"}')
    },
}


@pytest.mark.parametrize("name", PAGES)
def test_a_provider_that_answers_wrongly_gives_no_keys(provider: Issuer, name: str) -> None:
    for path, (status, headers, body) in PAGES[name].items():
        provider.pages[path] = status, headers, body.replace(b"URL", provider.url.encode())
    error = refusal(provider, provider.token())
    assert (error.code, error.status) == ("identity_unavailable", 503)


def test_keys_come_from_the_configured_address_without_a_discovery(provider: Issuer) -> None:
    found = caller(provider, provider.token(), jwks_uri=f"{provider.url}/other")
    assert (found.config.name, provider.requests) == ("corp:ann", ["/other"])


@pytest.mark.parametrize(
    "url, is_secure",
    [
        *(("https://a.example", True), ("https://a.example:8443/x", True), ("http://127.0.0.1:80", True)),
        *(("http://localhost/x", True), ("http://[::1]:1/x", True), ("http://a.example", False)),
        *(("ftp://a.example", False), ("https://", False), ("", False), ("https://user@a.example", False)),
        *(("http://127.0.0.1.evil.example", False), ("file:///etc/passwd", False), ("https://[", False)),
    ],
)
def test_keys_come_by_https_or_from_this_machine(url: str, is_secure: bool) -> None:
    assert is_secure_url(url) is is_secure


def test_a_token_without_a_role_of_this_gateway_grants_nothing(provider: Issuer) -> None:
    for roles in ([], ["other"], None, "other", {"user": 1}, [["user"]]):
        error = refusal(provider, provider.token(roles=roles))
        assert isinstance(error, AuthorityError)
        assert error.code == "token_without_role"


def test_roles_add_up_and_of_limits_the_highest_counts(provider: Issuer) -> None:
    roles = (
        RoleConfig(name="a", models=("small",), tools=("get_*",), rate=5, width=2),
        RoleConfig(name="b", models=("large",), approve=True, rate=50),
        RoleConfig(name="c", admin=True, rate=9, width=9),
    )
    config = caller(provider, provider.token(roles=["a", "b", "a"]), defined_roles=roles).config
    assert (config.models, config.tools, config.approve, config.admin) == (("small", "large"), ("get_*",), True, False)
    assert (config.rate, config.width) == (50, 0)


@pytest.mark.parametrize(
    "settings, claims",
    [
        ({"role_claim": "scope"}, {"scope": "openid user"}),
        ({"role_claim": "realm_access.roles"}, {"realm_access": {"roles": ["user"]}}),
        ({"role_claim": "https://a.example/roles"}, {"https://a.example/roles": ["user"]}),
        ({"roles": ("user",), "role_claim": "nothing.here"}, {"nothing": 1}),
    ],
    ids=str,
)
def test_roles_come_from_the_configured_claim(
    provider: Issuer, settings: dict[str, Any], claims: dict[str, Any]
) -> None:
    found = caller(provider, provider.token(**{"roles": None, **claims}), **settings)
    assert found.config.tools == ("get_*",)


def test_tenants_and_names_come_from_the_configured_claims_and_stay_within_their_patterns(provider: Issuer) -> None:
    claims = {"org": {"id": "acme-1"}, "email": "ann@a.example"}
    settings = {"tenant_claim": "org.id", "tenants": ("acme-*",), "principal_claim": "email"}
    config = caller(provider, provider.token(**claims), **settings).config
    assert (config.name, config.tenant) == ("corp:ann@a.example", "acme-1")
    assert code(provider, provider.token(**{**claims, "org": {"id": "evil"}}), **settings) == "token_claims"
    unverified = provider.token(**claims, email_verified=False)
    assert code(provider, unverified, **settings) == "token_claims"
    fixed = caller(provider, provider.token(), tenant_claim="", tenant="one").config
    assert fixed.tenant == "one"


def test_two_providers_cannot_name_each_others_callers_nor_grant_each_others_roles(provider: Issuer) -> None:
    with issuer() as second:
        config = replace(
            provider.config(),
            identity=(provider.identity(), second.identity(name="partner", tenant_claim="", tenant="partner")),
            roles=(RoleConfig(name="user"), RoleConfig(name="admin", identity="corp", admin=True)),
        )

        async def scenario(verifier: TokenVerifier) -> None:
            own = await verifier.find(provider.token(roles=["user", "admin"]))
            other = await verifier.find(second.token(roles=["user", "admin"]))
            assert (own.principal.name, own.principal.tenant, own.config.admin) == ("corp:ann", "acme", True)
            assert (other.principal.name, other.principal.tenant, other.config.admin) == (
                "partner:ann",
                "partner",
                False,
            )
            # Signed by one provider in the name of the other one, under the same key id.
            second.keys[0] = public_jwk("ES256", private_key("ES256", 5), "ES256-0")
            import jwt

            forged = jwt.encode(provider.claims(), private_key("ES256", 5), "ES256", {"kid": "ES256-0"})
            with pytest.raises(UnauthenticatedError) as raised:
                await verifier.find(forged)
            assert raised.value.code == "token_signature"

        run(config, scenario)
