import asyncio
import hashlib
import hmac
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.context import Principal
from ferrule.errors import AuthorityError, DefinitionError, HeadTooLargeError, HostError, RequestError
from ferrule.server.auth import keys as keys_module
from ferrule.server.auth.admission import Admission
from ferrule.server.auth.keys import Keyring, extract_keys, principal_of
from ferrule.server.config.config import GatewayLimits
from ferrule.server.http import ANY, OPEN, Request
from server.client import ClientResponse, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key, key_protocol

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi."}]}


def post_requests(config: Any, headers: dict[str, str], times: int = 1, path: str = CHAT) -> list[ClientResponse]:
    async def scenario() -> list[ClientResponse]:
        async with gateway_of(scripted_engine(*["Hello."] * times), config=config) as client:
            return [await client.post(path, BODY, headers) for _ in range(times)]

    return asyncio.run(scenario())


@given(st.sets(st.text(min_size=1, max_size=12), min_size=1, max_size=12), st.text(max_size=12))
def test_a_keyring_finds_exactly_the_keys_that_it_has(texts: set[str], other: str) -> None:
    ring = Keyring([key(f"k{at}", text) for at, text in enumerate(texts)])
    for text in texts:
        match = ring.find(text)
        assert match is not None
        assert match.config.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert (ring.find(other) is not None) == (other in texts)


def test_a_key_lookup_takes_the_same_steps_whether_the_key_exists_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Keyring([key(f"k{at}") for at in range(50)])
    lengths: list[tuple[int, int]] = []

    def count_comparison(a: bytes, b: bytes) -> bool:
        lengths.append((len(a), len(b)))
        return hmac.compare_digest(a, b)

    fake = type("hmac", (), {"compare_digest": staticmethod(count_comparison), "digest": staticmethod(hmac.digest)})
    monkeypatch.setattr(keys_module, "hmac", fake)
    for text in ("k0", "k49", "nobody's", ""):
        ring.find(text)
    assert lengths == [(32, 32)] * 4


def test_a_keyring_holds_no_key_in_plain_text() -> None:
    ring = Keyring([key("ann", "sesame")])
    contents = repr([getattr(ring, name) for name in Keyring.__slots__])
    assert "sesame" not in contents


@pytest.mark.parametrize("sha256", ["", "abc", "z" * 64, "ab" * 31])
def test_a_key_without_a_hash_is_refused_when_the_gateway_starts(sha256: str) -> None:
    with pytest.raises(DefinitionError):
        Keyring([keys_module.KeyConfig(name="ann", sha256=sha256)])


def test_two_keys_of_one_text_are_refused_when_the_gateway_starts() -> None:
    with pytest.raises(DefinitionError):
        Keyring([key("ann", "same"), key("bob", "same")])


@pytest.mark.parametrize(
    "authorization, api_key, keys",
    [
        ("Bearer a", None, ("a",)),
        ("bearer a", None, ("a",)),
        (None, "a", ("a",)),
        ("Bearer a", "a", ("a",)),
        ("Bearer a", "b", ("a", "b")),
        ("Basic a", None, ()),
        ("a", None, ()),
        ("Bearer ", "", ()),
        (None, None, ()),
    ],
)
def test_a_key_is_read_from_either_header(
    authorization: str | None, api_key: str | None, keys: tuple[str, ...]
) -> None:
    assert extract_keys(authorization, api_key) == keys


def test_a_websocket_may_send_its_key_as_a_subprotocol() -> None:
    assert extract_keys(None, None, ["ferrule.v1", key_protocol("a"), "chat"]) == ("a",)
    assert extract_keys("Bearer a", None, [key_protocol("a")]) == ("a",)
    assert extract_keys("Bearer a", None, [key_protocol("b"), key_protocol("c")]) == ("a", "b", "c")


@given(st.text(min_size=1))
def test_any_key_can_be_encoded_as_a_subprotocol(text: str) -> None:
    subprotocol = key_protocol(text)
    assert set(subprotocol) <= set(string.ascii_letters + string.digits + "-_.")
    assert extract_keys(None, None, [subprotocol]) == (text,)


@given(st.text(max_size=40))
def test_no_subprotocol_raises_and_a_key_has_one_encoding(text: str) -> None:
    for match in extract_keys(None, None, [f"ferrule.key.{text}"]):
        assert key_protocol(match) == f"ferrule.key.{text}"


@pytest.mark.parametrize(
    "subprotocol",
    ["ferrule.key.", "ferrule.key.YQ==", "ferrule.key.Y Q", "ferrule.key.YR", "ferrule.key._w", "Ferrule.key.YQ", "YQ"],
)
def test_an_invalid_key_subprotocol_is_ignored(subprotocol: str) -> None:
    assert extract_keys(None, None, [subprotocol]) == ()


def test_subprotocols_of_a_plain_http_request_are_not_keys() -> None:
    headers = {"sec-websocket-protocol": f"ferrule.v1, {key_protocol('ann')}"}
    [answer] = post_requests(config_with_keys(key("ann")), headers)
    assert answer.status == 401


def test_a_gateway_without_keys_refuses_pages_under_unknown_host_names() -> None:
    page = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}

    def status(config: Any, **more: str) -> int:
        return post_requests(config, {**page, **more})[0].status

    # DNS rebinding. On a gateway with keys, the page is treated like any client without a key.
    assert status(config_with_keys()) == 403
    assert status(config_with_keys(hosts=("*",), insecure=True)) == 403
    assert status(config_with_keys(key("ann"), hosts=("*",))) == 401
    assert status(config_with_keys(key("ann"), hosts=("*",)), **bearer("ann")) == 200


@pytest.mark.parametrize(
    "headers, status",
    [
        (bearer("ann"), 200),
        ({"x-api-key": "ann"}, 200),
        ({**bearer("stale"), "x-api-key": "ann"}, 200),
        ({**bearer("ann"), "x-api-key": "ann"}, 200),
        ({**bearer("ann"), "x-api-key": "bob"}, 401),
        (bearer("nobody"), 401),
        ({}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": "Basic ann"}, 401),
    ],
)
def test_a_request_with_exactly_one_known_key_is_admitted(headers: dict[str, str], status: int) -> None:
    [answer] = post_requests(config_with_keys(key("ann"), key("bob")), headers)
    assert answer.status == status
    assert answer.headers["x-should-retry"] == "false" if status != 200 else True


@pytest.mark.parametrize(
    "more, scopes",
    [
        ({}, {"models"}),
        ({"models": ()}, set()),
        ({"tools": ("*",)}, {"models", "tools"}),
        ({"models": (), "tools": ("add",)}, {"tools"}),
        ({"models": (), "approve": True}, {"approve"}),
        ({"models": (), "admin": True}, {"admin"}),
    ],
)
def test_a_key_is_admitted_only_to_its_scopes(more: dict[str, Any], scopes: set[str]) -> None:
    admission = Admission(config_with_keys(key("ann", **more)))
    request = Request("GET", "/", "req", {"host": "localhost", **bearer("ann")})

    async def is_admitted(scope: str) -> bool:
        try:
            async with admission.admit(request, scope) as admitted_request:
                assert admitted_request.principal.name == "ann"
                assert scope in admitted_request.rights
        except AuthorityError:
            return False
        return True

    for scope in ("models", "tools", "approve", "admin", "unknown", ""):
        assert asyncio.run(is_admitted(scope)) == (scope in scopes)
    assert asyncio.run(is_admitted(ANY))


def test_an_open_route_needs_no_key_but_a_valid_host() -> None:
    admission = Admission(config_with_keys(key("ann")))

    async def scenario(host: str) -> Principal:
        async with admission.admit(Request("GET", "/", "req", {"host": host}), OPEN) as admitted_request:
            return admitted_request.principal

    assert asyncio.run(scenario("localhost")) == Principal()
    with pytest.raises(HostError):
        asyncio.run(scenario("evil.example"))


@given(st.sets(st.sampled_from(["a", "b", "*"])), st.sets(st.sampled_from(["a", "b", "*"])), st.sampled_from("abc"))
def test_a_principal_may_use_the_tools_and_models_of_its_key(models: set[str], tools: set[str], name: str) -> None:
    who = principal_of(key("ann", models=tuple(models), tools=tuple(tools)))
    assert who.may_use(name) == bool({name, "*"} & tools)
    assert who.may_use(f"model:{name}") == bool({name, "*"} & models)


def test_scopes_of_a_principal_survive_serialization() -> None:
    who = principal_of(key("ann", models=("smol",), tools=("*",)))
    again = Principal(who.name, who.tenant, frozenset(sorted(who.scopes or ())))
    assert again.may_use("anything")
    assert not again.may_use("model:other")


def test_the_tenant_comes_from_the_key() -> None:
    who = principal_of(key("ann", tenant="acme"))
    assert (who.name, who.tenant) == ("ann", "acme")


@pytest.mark.parametrize("name", ["host", "authorization", "x-api-key", "origin", "content-length"])
def test_a_repeated_single_value_header_is_refused(name: str) -> None:
    admission = Admission(config_with_keys())
    fields = [(name.encode(), b"a"), (b"accept", b"x"), (b"accept", b"y"), (name.encode(), b"a")]
    admission.check_head(fields[:3], 1, 0)
    with pytest.raises(RequestError, match="occurs twice") as refusal:
        admission.check_head(fields, 1, 0)
    assert refusal.value.status == 400


FIELDS = st.tuples(st.binary(max_size=20).map(lambda name: b"x-" + name), st.binary(max_size=60))


@given(st.lists(FIELDS, max_size=20), st.integers(0, 300))
def test_the_length_of_a_head_is_that_of_its_lines(fields: list[tuple[bytes, bytes]], address: int) -> None:
    size = address + sum(len(b": \r\n" + name + value) for name, value in fields)
    Admission(config_with_keys(limits=GatewayLimits(header_bytes=size))).check_head(fields, address, 0)
    with pytest.raises(HeadTooLargeError):
        Admission(config_with_keys(limits=GatewayLimits(header_bytes=size - 1))).check_head(fields, address, 0)


def test_a_long_query_is_refused() -> None:
    async def scenario() -> list[int]:
        async with gateway_of(scripted_engine()) as client:
            return [(await client.get("/v1/models?a=" + "x" * size)).status for size in (100, 9_000)]

    assert asyncio.run(scenario()) == [200, 431]


def test_a_key_that_exceeds_its_rate_gets_a_retry_after() -> None:
    first, second = post_requests(config_with_keys(key("ann", rate=1)), bearer("ann"), times=2)
    assert first.status == 200
    assert second.status == 429
    assert 1 <= int(second.headers["retry-after"]) <= 61
    assert second.headers["x-should-retry"] == "true"
    assert second.json()["error"]["code"] == "too_many_requests"
