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
from ferrule.server.auth import keys as door_keys
from ferrule.server.auth.admission import Door
from ferrule.server.auth.keys import Keyring, given_keys, principal_of
from ferrule.server.config.config import Limits
from ferrule.server.http import ANY, OPEN, Asked
from server.client import Answered, gateway_of, speaking
from server.keys import bearer, key, key_protocol, keyed

CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi."}]}


def answered(config: Any, headers: dict[str, str], times: int = 1, path: str = CHAT) -> list[Answered]:
    async def scenario() -> list[Answered]:
        async with gateway_of(speaking(*["Hello."] * times), config=config) as client:
            return [await client.post(path, ASK, headers) for _ in range(times)]

    return asyncio.run(scenario())


@given(st.sets(st.text(min_size=1, max_size=12), min_size=1, max_size=12), st.text(max_size=12))
def test_a_keyring_finds_exactly_the_keys_that_it_has(texts: set[str], other: str) -> None:
    ring = Keyring([key(f"k{at}", text) for at, text in enumerate(texts)])
    for text in texts:
        found = ring.find(text)
        assert found is not None
        assert found.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert (ring.find(other) is not None) == (other in texts)


def test_finding_a_key_takes_the_same_steps_whether_it_is_there_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Keyring([key(f"k{at}") for at in range(50)])
    compared: list[tuple[int, int]] = []

    def counted(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return hmac.compare_digest(a, b)

    fake = type("hmac", (), {"compare_digest": staticmethod(counted), "digest": staticmethod(hmac.digest)})
    monkeypatch.setattr(door_keys, "hmac", fake)
    for text in ("k0", "k49", "nobody's", ""):
        ring.find(text)
    assert compared == [(32, 32)] * 4


def test_a_key_is_nowhere_held_in_clear() -> None:
    ring = Keyring([key("ann", "sesame")])
    held = repr([getattr(ring, name) for name in Keyring.__slots__])
    assert "sesame" not in held


@pytest.mark.parametrize("sha256", ["", "abc", "z" * 64, "ab" * 31])
def test_a_key_without_a_hash_is_refused_when_the_gateway_starts(sha256: str) -> None:
    with pytest.raises(DefinitionError):
        Keyring([door_keys.KeyConfig(name="ann", sha256=sha256)])


def test_two_keys_of_one_text_are_refused_when_the_gateway_starts() -> None:
    with pytest.raises(DefinitionError):
        Keyring([key("ann", "same"), key("bob", "same")])


@pytest.mark.parametrize(
    "authorization, api_key, shown",
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
def test_a_key_is_shown_in_either_header(
    authorization: str | None, api_key: str | None, shown: tuple[str, ...]
) -> None:
    assert given_keys(authorization, api_key) == shown


def test_a_socket_may_show_its_key_among_its_subprotocols() -> None:
    assert given_keys(None, None, ["ferrule.v1", key_protocol("a"), "chat"]) == ("a",)
    assert given_keys("Bearer a", None, [key_protocol("a")]) == ("a",)
    assert given_keys("Bearer a", None, [key_protocol("b"), key_protocol("c")]) == ("a", "b", "c")


@given(st.text(min_size=1))
def test_any_key_can_be_spelled_as_a_subprotocol(text: str) -> None:
    spelled = key_protocol(text)
    assert set(spelled) <= set(string.ascii_letters + string.digits + "-_.")
    assert given_keys(None, None, [spelled]) == (text,)


@given(st.text(max_size=40))
def test_no_subprotocol_raises_and_one_key_has_one_spelling(text: str) -> None:
    for found in given_keys(None, None, [f"ferrule.key.{text}"]):
        assert key_protocol(found) == f"ferrule.key.{text}"


@pytest.mark.parametrize(
    "subprotocol",
    ["ferrule.key.", "ferrule.key.YQ==", "ferrule.key.Y Q", "ferrule.key.YR", "ferrule.key._w", "Ferrule.key.YQ", "YQ"],
)
def test_what_only_resembles_a_key_is_none(subprotocol: str) -> None:
    assert given_keys(None, None, [subprotocol]) == ()


def test_the_subprotocols_of_what_is_no_socket_are_no_keys() -> None:
    headers = {"sec-websocket-protocol": f"ferrule.v1, {key_protocol('ann')}"}
    [answer] = answered(keyed(key("ann")), headers)
    assert answer.status == 401


def test_where_a_gateway_cannot_tell_its_page_from_a_strangers_neither_may_call() -> None:
    page = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}

    def status(config: Any, **more: str) -> int:
        return answered(config, {**page, **more})[0].status

    # Its name was made to lead here. Where keys are demanded it comes no further than any client without one.
    assert status(keyed()) == 403
    assert status(keyed(hosts=("*",), insecure=True)) == 403
    assert status(keyed(key("ann"), hosts=("*",))) == 401
    assert status(keyed(key("ann"), hosts=("*",)), **bearer("ann")) == 200


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
def test_who_shows_one_known_key_comes_in(headers: dict[str, str], status: int) -> None:
    [answer] = answered(keyed(key("ann"), key("bob")), headers)
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
def test_a_key_comes_in_where_its_scopes_let_it(more: dict[str, Any], scopes: set[str]) -> None:
    door = Door(keyed(key("ann", **more)))
    asked = Asked("GET", "/", "req", {"host": "localhost", **bearer("ann")})

    async def comes_in(scope: str) -> bool:
        try:
            async with door.admitted(asked, scope) as known:
                assert known.principal.name == "ann"
                assert scope in known.rights
        except AuthorityError:
            return False
        return True

    for scope in ("models", "tools", "approve", "admin", "unheard of", ""):
        assert asyncio.run(comes_in(scope)) == (scope in scopes)
    assert asyncio.run(comes_in(ANY))


def test_an_open_route_asks_for_no_key_but_for_a_host() -> None:
    door = Door(keyed(key("ann")))

    async def scenario(host: str) -> Principal:
        async with door.admitted(Asked("GET", "/", "req", {"host": host}), OPEN) as known:
            return known.principal

    assert asyncio.run(scenario("localhost")) == Principal()
    with pytest.raises(HostError):
        asyncio.run(scenario("evil.example"))


@given(st.sets(st.sampled_from(["a", "b", "*"])), st.sets(st.sampled_from(["a", "b", "*"])), st.sampled_from("abc"))
def test_a_principal_may_use_the_tools_and_models_of_his_key(models: set[str], tools: set[str], name: str) -> None:
    who = principal_of(key("ann", models=tuple(models), tools=tuple(tools)))
    assert who.may_use(name) == bool({name, "*"} & tools)
    assert who.may_use(f"model:{name}") == bool({name, "*"} & models)


def test_what_a_key_may_use_travels_as_plain_texts() -> None:
    who = principal_of(key("ann", models=("smol",), tools=("*",)))
    again = Principal(who.name, who.tenant, frozenset(sorted(who.scopes or ())))
    assert again.may_use("anything")
    assert not again.may_use("model:other")


def test_the_tenant_is_the_keys_and_nothing_that_a_request_says() -> None:
    who = principal_of(key("ann", tenant="acme"))
    assert (who.name, who.tenant) == ("ann", "acme")


@pytest.mark.parametrize("twice", ["host", "authorization", "x-api-key", "origin", "content-length"])
def test_a_header_that_can_be_said_once_is_refused_twice(twice: str) -> None:
    door = Door(keyed())
    fields = [(twice.encode(), b"a"), (b"accept", b"x"), (b"accept", b"y"), (twice.encode(), b"a")]
    door.check_head(fields[:3], 1, 0)
    with pytest.raises(RequestError, match="two headers") as refusal:
        door.check_head(fields, 1, 0)
    assert refusal.value.status == 400


FIELDS = st.tuples(st.binary(max_size=20).map(lambda name: b"x-" + name), st.binary(max_size=60))


@given(st.lists(FIELDS, max_size=20), st.integers(0, 300))
def test_a_head_is_as_long_as_its_lines_are(fields: list[tuple[bytes, bytes]], address: int) -> None:
    size = address + sum(len(b": \r\n" + name + value) for name, value in fields)
    Door(keyed(limits=Limits(header_bytes=size))).check_head(fields, address, 0)
    with pytest.raises(HeadTooLargeError):
        Door(keyed(limits=Limits(header_bytes=size - 1))).check_head(fields, address, 0)


def test_a_long_query_is_refused() -> None:
    async def scenario() -> list[int]:
        async with gateway_of(speaking()) as client:
            return [(await client.get("/v1/models?a=" + "x" * size)).status for size in (100, 9_000)]

    assert asyncio.run(scenario()) == [200, 431]


def test_a_key_that_asks_too_often_is_told_when_to_come_back() -> None:
    first, second = answered(keyed(key("ann", rate=1)), bearer("ann"), times=2)
    assert first.status == 200
    assert second.status == 429
    assert 1 <= int(second.headers["retry-after"]) <= 61
    assert second.headers["x-should-retry"] == "true"
    assert second.json()["error"]["code"] == "too_many_requests"
