from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import DefinitionError
from ferrule.sources.bus.subject import (
    Capability,
    changes_subject,
    decode_part,
    definition_subject,
    encode_part,
    read_subject,
    requested_fingerprint,
    server_wildcard,
    service_name,
    version_of,
)

names = st.text(st.characters(), min_size=1, max_size=30)
servers = names.filter(lambda name: "." not in name and "@" not in name)
tools = names.filter(lambda name: "@" not in name)
versions = st.integers(0, 10_000)
capabilities = st.builds(Capability, servers, tools, versions, versions)
FORBIDDEN = set(" \t\r\n.*>")


@given(names)
def test_a_spelled_name_is_one_part_of_a_subject_and_comes_back(name: str) -> None:
    token = encode_part(name)
    assert token
    assert not FORBIDDEN & set(token)
    assert token.isascii()
    assert decode_part(token) == name


@given(names, names)
def test_no_two_names_are_spelled_alike(one: str, other: str) -> None:
    assert (encode_part(one) == encode_part(other)) == (one == other)


@given(st.text(max_size=20) | st.from_regex(r"\A[=A-Fa-f0-9_\-]{1,12}\Z"))
def test_what_is_no_spelling_is_refused_and_every_other_is_the_only_one(token: str) -> None:
    try:
        name = decode_part(token)
    except DefinitionError:
        return
    assert encode_part(name) == token


@given(capabilities, names)
def test_a_subject_says_which_capability_it_is(capability: Capability, tenant: str) -> None:
    found_tenant, result = read_subject(capability.subject(tenant))
    assert found_tenant == tenant
    assert (result.name, result.major) == (capability.name, capability.major)


@given(capabilities, names, capabilities, names)
def test_no_two_capabilities_share_a_subject(one: Capability, ours: str, other: Capability, theirs: str) -> None:
    is_same = (one.name, one.major, ours) == (other.name, other.major, theirs)
    assert (one.subject(ours) == other.subject(theirs)) == is_same


@given(capabilities)
def test_a_capability_reads_back_from_its_own_text(capability: Capability) -> None:
    assert Capability.read(str(capability)) == capability
    assert Capability.read(capability.name, capability.version) == capability


@given(capabilities, names)
def test_a_definition_is_asked_for_under_the_servers_wildcard_and_never_where_a_tool_is(
    capability: Capability, tenant: str
) -> None:
    subject = definition_subject(tenant, capability.server, "abc123")
    wildcard = server_wildcard(tenant, capability.server)
    assert subject.split(".")[:3] == wildcard.split(".")[:3]
    assert capability.subject(tenant).split(".")[:3] == wildcard.split(".")[:3]
    assert requested_fingerprint(subject) == "abc123"
    assert requested_fingerprint(capability.subject(tenant)) is None
    with pytest.raises(DefinitionError):
        read_subject(subject)


@given(names, names)
def test_tenants_have_different_subjects_and_service_names(one: str, other: str) -> None:
    for subject in (service_name, changes_subject):
        assert (subject(one) == subject(other)) == (one == other)


@pytest.mark.parametrize(
    "offered, expected, serves",
    [
        ("a.b@1.0", "a.b@1.0", True),
        ("a.b@1.3", "a.b@1.1", True),
        ("a.b@1.0", "a.b@1.1", False),
        ("a.b@2.0", "a.b@1.0", False),
        ("a.b@1.0", "a.c@1.0", False),
    ],
)
def test_a_newer_minor_version_serves_and_another_major_one_does_not(offered: str, expected: str, serves: bool) -> None:
    assert Capability.read(offered).serves(Capability.read(expected)) is serves


def test_the_specifications_own_capability_has_its_subject() -> None:
    assert Capability.read("llm.tools.call@1.0").subject("local") == "t.local.llm.tools=2Ecall.1"


@pytest.mark.parametrize("text", ["", "search", ".a", "a.", "a.b@1", "a.b@01.0", "a.b@1.0.0", "a.b@x", "a.b@1.-1"])
def test_what_is_no_capability_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        Capability.read(text)
    assert refusal.value.hint


@given(st.text(max_size=12))
def test_a_version_is_two_numbers_in_one_spelling(text: str) -> None:
    try:
        major, minor = version_of(text)
    except DefinitionError:
        return
    assert f"{major}.{minor}" == text
