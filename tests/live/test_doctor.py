"""The doctor on a real engine: the probes must find the known behaviour of llama-server."""

from __future__ import annotations

import asyncio

import pytest

from ferrule.engines.doctor import PROBES
from ferrule.engines.profile import Profile, Verdict, honoured_choices
from lab.doctor_engines import profile_of
from lab.servers import llama_server

pytestmark = [pytest.mark.live, pytest.mark.long]

# Enough to find the known behaviour; all probes would take minutes.
PROBE_NAMES = ("named", "allowed", "schema: type", "schema: enum", "schema: uniqueItems", "stream: argument deltas")


@pytest.fixture(scope="module")
def profile() -> Profile:
    with llama_server() as url:
        return asyncio.run(profile_of(url, 2, probes=[probe for probe in PROBES if probe.name in PROBE_NAMES]))


def verdict(profile: Profile, name: str) -> Verdict:
    return next(finding.verdict for finding in profile.findings if finding.name == name)


def test_a_named_choice_is_found_to_be_ignored(profile: Profile) -> None:
    assert verdict(profile, "named") is Verdict.IGNORED
    assert not {"one", "allowed"} & honoured_choices(profile)


def test_keywords_of_its_grammar_are_honoured_and_the_missing_one_is_not(profile: Profile) -> None:
    assert profile.honours("schema: type")
    assert profile.honours("schema: enum")
    assert verdict(profile, "schema: uniqueItems") is Verdict.IGNORED


def test_arguments_are_found_to_come_in_pieces(profile: Profile) -> None:
    assert profile.honours("stream: argument deltas")
