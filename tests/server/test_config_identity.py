"""The tables `[identity.NAME]` and `[roles.NAME]` of a configuration."""

from __future__ import annotations

import pytest

from ferrule.cli.config_view import config_rows
from ferrule.errors import DefinitionError
from ferrule.server.config.loader import parse_config

ENGINE = '[engines.e0]\nuse = "fake:Hello."\n'
IDENTITY = '[identity.corp]\nissuer = "https://login.example.com/"\naudience = ["https://ferrule.example.com"]\n'
ROLE = '[roles.agent]\ntools = ["get_*"]\nrate = 60\n'


def test_an_identity_provider_and_a_role_are_enough_and_every_request_then_needs_a_token() -> None:
    loaded = parse_config(ENGINE + IDENTITY + ROLE, "ferrule.toml", {})
    (identity,), (role,) = loaded.config.identity, loaded.config.roles
    assert (identity.name, identity.principal_claim, identity.role_claim) == ("corp", "sub", "roles")
    assert identity.algorithms == ("RS256", "PS256", "ES256", "EdDSA")
    assert (role.name, role.tools, role.rate) == ("agent", ("get_*",), 60)
    assert loaded.config.requires_keys
    rows = {(kind, name): text for kind, name, text, _ in config_rows(loaded)}
    assert rows["identity", "corp"] == "https://login.example.com/; audience https://ferrule.example.com"
    assert rows["role", "agent"] == "models *; tools get_*; 60 requests per minute"
    assert rows["address", "127.0.0.1:8000"] == "keys, and tokens of corp"


def test_settings_come_from_the_environment_and_names_of_roles_may_have_colons() -> None:
    environment = {"FERRULE_IDENTITY_CORP_AUDIENCE": "a,b", "FERRULE_IDENTITY_CORP_LEEWAY_SECONDS": "5"}
    role = '[[roles]]\nname = "ferrule:admin"\nadmin = true\n'
    config = parse_config(ENGINE + IDENTITY + role, "ferrule.toml", environment).config
    assert (config.identity[0].audience, config.identity[0].leeway_seconds) == (("a", "b"), 5.0)
    assert (config.roles[0].name, config.roles[0].admin) == ("ferrule:admin", True)


@pytest.mark.parametrize(
    "text, problem",
    [
        (IDENTITY.replace("https://login", "http://login") + ROLE, "identity.corp.issuer: it is not an https URL"),
        (IDENTITY + 'jwks_uri = "http://keys.example.com"\n' + ROLE, "identity.corp.jwks_uri: it is not an https URL"),
        (IDENTITY.replace('["https://ferrule.example.com"]', "[]") + ROLE, "identity.corp.audience: a token for any"),
        (IDENTITY + 'algorithms = ["RS256", "HS256"]\n' + ROLE, "'HS256' is no asymmetric signature algorithm"),
        (IDENTITY + 'algorithms = ["none"]\n' + ROLE, "'none' is no asymmetric signature algorithm"),
        (IDENTITY + "algorithms = []\n" + ROLE, "identity.corp.algorithms: no algorithm is allowed"),
        (IDENTITY, "identity.corp: its tokens grant nothing: no role is defined"),
        (IDENTITY + ROLE + 'identity = "other"\n', "roles.agent.identity: unknown identity provider 'other'"),
        (IDENTITY + 'roles = ["agnet"]\n' + ROLE, "unknown role 'agnet'. Did you mean agent?"),
        (IDENTITY + IDENTITY.replace("corp", "more") + ROLE, "corp and more have the same issuer"),
        (IDENTITY.replace("identity.corp", 'identity."a:b"') + ROLE, "the name has a colon"),
        ("[identity.corp]\n" + ROLE, "identity.corp has no issuer"),
    ],
    ids=str,
)
def test_a_mistake_is_named_with_what_to_write_instead(text: str, problem: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        parse_config(ENGINE + text, "ferrule.toml", {})
    assert problem in raised.value.message
