from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.engines.profile import Finding, Profile, Verdict, honoured_choices
from ferrule.errors import DefinitionError

CHOICE_PROBES = {"none": "none", "required": "required", "one": "named", "allowed": "allowed"}
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.sampled_from(["none", "required", "named", "allowed", "schema: enum"])
FINDINGS = st.builds(Finding, NAMES | WORDS, st.sampled_from(Verdict), WORDS)
PROFILES = st.builds(Profile, WORDS, WORDS, WORDS, st.lists(FINDINGS, unique_by=lambda one: one.name).map(tuple))


@given(PROFILES)
def test_a_profile_comes_back_from_its_json(profile: Profile) -> None:
    assert Profile.from_dict(json.loads(json.dumps(profile.as_dict()))) == profile


@given(PROFILES)
def test_only_honoured_choices_are_relied_on(profile: Profile) -> None:
    verdicts = {finding.name: finding.verdict for finding in profile.findings}
    for name in [*verdicts, "never asked"]:
        assert profile.honours(name) == (verdicts.get(name) is Verdict.HONOURED)
    expected = {choice for choice, probe in CHOICE_PROBES.items() if verdicts.get(probe) is Verdict.HONOURED}
    assert honoured_choices(profile) == expected | {"auto"}


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        {},
        {"url": "u", "model": "m", "date": "d"},
        {"url": 1, "model": "m", "date": "d", "findings": []},
        {"url": "u", "model": "m", "date": "d", "findings": [3]},
        {"url": "u", "model": "m", "date": "d", "findings": [{"name": "n", "verdict": "maybe", "evidence": ""}]},
        {"url": "u", "model": "m", "date": "d", "findings": [{"name": "n", "verdict": "ignored"}]},
    ],
)
def test_an_invalid_profile_is_refused_with_a_hint(damaged: object) -> None:
    with pytest.raises(DefinitionError) as refusal:
        Profile.from_dict(damaged)
    assert refusal.value.code == "bad_profile"
    assert refusal.value.hint
