import json
from itertools import product

import pytest

from lab.corpus import CASES, CHUNKINGS, FAMILIES, TOOLS, Family
from lab.peers.markers import SPECIALS

EVERY_FAMILY = [pytest.param(family, id=family.name) for family in FAMILIES]


def _parameter_names() -> dict[str, set[str]]:
    return {tool["function"]["name"]: set(tool["function"]["parameters"]["properties"]) for tool in TOOLS}


def test_every_family_has_its_own_name_and_somebody_to_compare_with():
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    assert all(family.vllm or family.sglang for family in FAMILIES)


def test_every_vllm_parser_of_the_corpus_has_a_vocabulary():
    assert {family.vllm for family in FAMILIES if family.vllm} <= set(SPECIALS)


def test_every_call_of_the_cases_is_one_that_the_tools_allow():
    parameter_names = _parameter_names()
    for case in CASES:
        for name, arguments in case.calls:
            assert set(arguments) <= parameter_names[name]


def test_the_cases_cover_one_call_two_calls_hard_values_and_no_arguments():
    assert [case.name for case in CASES] == ["one", "two", "hard", "empty"]
    assert len(CASES[1].calls) == 2
    hard = json.dumps(CASES[2].calls[0][1], ensure_ascii=False)
    assert all(mark in hard for mark in ('\\"', "\\n", "<b>", "東京", "null", "true"))


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_text_names_every_call_and_holds_the_text_before_them(family: Family):
    for case in CASES:
        text = family.render(case)
        assert family.text_of(case) in text
        for name, arguments in case.calls:
            assert name in text
            assert all(key in text for key in arguments)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_the_chunks_of_a_text_are_the_text(family: Family):
    for case, tokens in product(CASES, CHUNKINGS):
        chunks = family.chunks(case, tokens)
        assert "".join(chunks) == family.render(case)
        assert all(chunks[:-1])
        assert tokens is not None or len(chunks) == 1
