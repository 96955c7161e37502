import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import DefinitionError, HostError, RequestError
from ferrule.server.auth.host import Host, HostPolicy, parse_host

LABELS = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=12)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PORTS = st.integers(0, 65_535)
OURS = HostPolicy.of(["localhost", "127.0.0.1", "[::1]", "gw.example.com:8443"], ["https://chat.example.com"])


@given(NAMES, PORTS, st.booleans())
def test_a_name_is_the_same_in_either_case_with_a_dot_after_it_and_on_any_port(name: str, port: int, dot: bool) -> None:
    text = f"{name.upper()}{'.' * dot}:{port}"
    assert parse_host(text) == Host(name.lower(), port)
    HostPolicy.of([name], []).check(text, None)


@given(st.ip_addresses(v=6), PORTS)
def test_an_ipv6_address_matches_in_every_notation(address: object, port: int) -> None:
    long = f"[{address.exploded.upper()}]:{port}"  # type: ignore[attr-defined]
    HostPolicy.of([str(address)], []).check(long, None)


@given(NAMES, NAMES)
def test_only_listed_hosts_are_served(name: str, other: str) -> None:
    policy = HostPolicy.of([name], [])
    if other.lower() == name.lower():
        policy.check(other, None)
    else:
        with pytest.raises(HostError):
            policy.check(other, None)


@given(st.text(max_size=40))
def test_any_text_parses_as_one_host_or_none(text: str) -> None:
    host = parse_host(text)
    if host is not None:
        assert not set(host.name) & set("/?#@ \t\r\n\\,;")
        assert parse_host(host.name) == Host(host.name)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "localhost ",
            " localhost",
            "localhost\t",
            "a/b?",
            "#",
            "@",
            "localhost#",
            "localhost/x",
            "a@localhost",
        ),
        *(
            "localhost:80:80",
            "localhost:x",
            "localhost:-1",
            "localhost:65536",
            "localhost:123456",
            ":80",
            "localhost,evil",
        ),
        *("..", "localhost..", ".localhost", "a..b", "[::1", "::1]", "[]", "[localhost]", "[::1]x", "[::1]:x", "[::g]"),
        *(
            "lo\u0261alhost",
            "１２７.0.0.1",
            "localhost\x00",
            "localhost%00",
            "[::1%25lo]",
            "[1::2::3]",
            "http://localhost",
        ),
    ],
)
def test_an_invalid_host_is_refused_and_not_repaired(text: str) -> None:
    with pytest.raises(RequestError) as refusal:
        OURS.check(text, None)
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    "text", ["evil.example", "localhost.evil.example", "127.0.0.2", "0x7f.1", "2130706433", "[::2]"]
)
def test_another_host_is_forbidden(text: str) -> None:
    with pytest.raises(HostError) as refusal:
        OURS.check(text, None)
    assert refusal.value.status == 403


def test_a_request_without_a_host_is_refused_even_if_all_hosts_are_served() -> None:
    with pytest.raises(RequestError):
        HostPolicy.of(["*"], []).check(None, None)


def test_a_host_must_be_valid_even_if_all_hosts_are_served() -> None:
    every = HostPolicy.of(["*"], [])
    every.check("any.example:1", None)
    with pytest.raises(RequestError):
        every.check("a/b?", None)


def test_a_configured_port_must_match() -> None:
    OURS.check("GW.example.com.:8443", None)
    for other in ("gw.example.com", "gw.example.com:443"):
        with pytest.raises(HostError):
            OURS.check(other, None)


@pytest.mark.parametrize(
    "origin", ["https://chat.example.com", "https://CHAT.example.com:443", "HTTPS://chat.example.com"]
)
def test_a_listed_origin_may_call(origin: str) -> None:
    OURS.check("localhost", origin)


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "null",
            "",
            "http://chat.example.com",
            "https://chat.example.com:8443",
            "https://chat.example.com.evil.example",
        ),
        *("https://evil.example", "http://localhost", "file://", "https://chat.example.com/", "chat.example.com", "*"),
    ],
)
def test_an_unlisted_origin_may_not_call(origin: str) -> None:
    with pytest.raises(HostError):
        OURS.check("localhost", origin)


OWN = HostPolicy.of(["localhost", "127.0.0.1", "[::1]", "gw.example.com"], [], allows_own_pages=True)


@given(NAMES, PORTS.filter(bool), PORTS.filter(bool), st.sampled_from(["http", "https"]))
def test_a_page_of_the_same_host_and_port_may_call(name: str, port: int, other: int, scheme: str) -> None:
    policy = HostPolicy.of([name], [], allows_own_pages=True)
    policy.check(f"{name}:{port}", f"{scheme}://{name}:{port}")
    if port != other:
        with pytest.raises(HostError):
            policy.check(f"{name}:{port}", f"{scheme}://{name}:{other}")


@pytest.mark.parametrize(
    "host, origin",
    [
        ("localhost:8000", "http://localhost:8000"),
        ("LOCALHOST:8000", "http://localhost:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        # A proxy in front of the gateway terminates TLS.
        ("gw.example.com", "https://gw.example.com"),
        ("gw.example.com:443", "https://gw.example.com"),
        ("gw.example.com:8443", "https://gw.example.com:8443"),
    ],
)
def test_a_missing_port_is_the_default_of_the_scheme(host: str, origin: str) -> None:
    OWN.check(host, origin)
    with pytest.raises(HostError):
        HostPolicy.of(["*"], []).check(host, origin)


@pytest.mark.parametrize(
    "host, origin",
    [
        *(
            ("localhost:8000", one)
            for one in ("null", "", "http://localhost", "http://localhost:3000", "localhost:8000")
        ),
        *(
            ("localhost:8000", one)
            for one in ("http://127.0.0.1:8000", "http://[::1]:8000", "http://evil.example:8000")
        ),
        *(("localhost:8000", one) for one in ("file://localhost:8000", "chrome-extension://localhost:8000")),
        *(("localhost:8000", one) for one in ("http://a@localhost:8000", "http://localhost:8000/", "*")),
        *(("gw.example.com", one) for one in ("https://gw.example.com:80", "http://gw.example.com:443")),
        # DNS rebinding: page and Host agree, but the host is not served.
        ("evil.example:8000", "http://evil.example:8000"),
    ],
)
def test_a_page_of_another_host_port_or_scheme_may_not_call(host: str, origin: str) -> None:
    with pytest.raises(HostError):
        OWN.check(host, origin)


@pytest.mark.parametrize(
    "hosts, origins", [(["a/b"], []), ([""], []), ([], ["null"]), ([], ["*"]), ([], ["example.com"])]
)
def test_an_invalid_host_or_origin_in_the_configuration_is_refused(hosts: list[str], origins: list[str]) -> None:
    with pytest.raises(DefinitionError):
        HostPolicy.of(hosts, origins)
