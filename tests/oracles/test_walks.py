"""Law 4 on real vocabularies: 49 to 131 thousand tokens that cut text wherever they like."""

from __future__ import annotations

import random

import pytest

from ferrule.formats import all_formats, parse
from laws.replies import TOOLS
from laws.test_rule_protects import CHOICES, matcher_of, violation
from rules.walks import walk
from sampling import sampled

pytestmark = pytest.mark.oracle
FORMATS = all_formats()


@pytest.mark.parametrize("name, vocabulary", sampled("walks", FORMATS, ["llama3", "tekken", "smollm2"], 1))
def test_a_senseless_walk_makes_only_valid_calls(name: str, vocabulary: str) -> None:
    luck = random.Random(f"{name} {vocabulary}")
    for choice in CHOICES:
        words, matcher = matcher_of(name, choice, vocabulary)
        for _ in range(2):
            walked = walk(words, matcher, luck, max_tokens=150)
            assert not walked.problem, walked
            if walked.is_finished:
                reply = parse(FORMATS[name], walked.text, TOOLS)
                wrong = violation(FORMATS[name], choice, reply)
                assert not wrong, f"{wrong}: {walked.text!r}"
