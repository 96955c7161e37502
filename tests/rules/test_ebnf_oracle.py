"""Free text and strings in xgrammar's EBNF, tested with xgrammar: the automata have the same meaning as in GBNF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.rules.ebnf import ebnf_of
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.rule import Prose, Rule, RuleNode, Str, Until
from ferrule.schema.notation import JSON_QUOTE, PYTHON_SINGLE, Quote
from lab.paths import CACHE
from lab.workers import Worker
from rules.gbnf_acceptor import Acceptor

pytestmark = pytest.mark.oracle

# Few letters, so that strings overlap with themselves and with each other all the time.
letters = st.text("ab<", max_size=8)
some_strings = st.lists(st.text("ab<", min_size=1, max_size=4), max_size=3).map(tuple)
not_first = st.sampled_from(["", "a", "b<"])
literals = st.lists(st.sampled_from(["a", "b", "<", '"', "'", "\\", "\\u00", "\\x", "41", "é", "\n"]), max_size=6)


@pytest.fixture(scope="module")
def xgrammar() -> Iterator[Worker]:
    interpreter = CACHE / "venvs" / "xgrammar" / "bin" / "python"
    with Worker(interpreter, "lab.peers.xgrammar_worker", hint="run scripts/setup-oracles") as worker:
        yield worker


def admit_texts(worker: Worker, node: RuleNode, texts: Sequence[str]) -> list[bool]:
    tag = {"type": "structural_tag", "format": {"type": "grammar", "grammar": ebnf_of(node)}}
    answer = worker.ask({"tag": tag, "texts": texts})
    assert answer["error"] is None, answer["error"]
    return answer["accepted"]


def is_alike(worker: Worker, node: RuleNode, texts: Sequence[str]) -> bool:
    acceptor = Acceptor(emit_gbnf(Rule(node)).text)
    return admit_texts(worker, node, texts) == [acceptor.accepts(text) for text in texts]


@given(some_strings, not_first, st.lists(letters, min_size=1, max_size=8))
def test_free_text_is_the_same(xgrammar: Worker, excludes: tuple[str, ...], first: str, texts: list[str]) -> None:
    assert is_alike(xgrammar, Prose(excludes, first), texts)


@given(st.text("ab<", min_size=1, max_size=4), some_strings, not_first, st.lists(letters, min_size=1, max_size=8))
def test_text_up_to_an_end_is_the_same(
    xgrammar: Worker, end: str, excludes: tuple[str, ...], first: str, texts: list[str]
) -> None:
    assert is_alike(xgrammar, Until(end, excludes, first), [*texts, *(text + end for text in texts)])


@settings(max_examples=120)
@given(
    st.sampled_from([JSON_QUOTE, PYTHON_SINGLE]),
    some_strings,
    st.sampled_from([(0, None), (1, None), (0, 3)]),
    st.lists(literals.map("".join), min_size=1, max_size=8),
)
def test_a_string_is_the_same(
    xgrammar: Worker, quote: Quote, excludes: tuple[str, ...], bounds: tuple[int, int | None], texts: list[str]
) -> None:
    # EBNF does not count lengths if there are excluded texts.
    node = Str(quote, excludes=excludes) if excludes else Str(quote, *bounds)
    assert is_alike(xgrammar, node, [f"{quote.open}{text}{quote.close}" for text in texts])


@pytest.mark.parametrize("excludes", [(), ("</end>",)])
def test_an_escaped_surrogate_comes_in_pairs(xgrammar: Worker, excludes: tuple[str, ...]) -> None:
    whole = ['"\\ud83d\\ude00"', '"\\u00e9"', '"\\uD7ff"', '"\\uE000"']
    halves = ['"\\ud83d"', '"\\ude00"', '"\\ud83d\\u0041"', '"\\ud83d\\ud83d"', '"\\ude00\\ud83d"']
    accepted = admit_texts(xgrammar, Str(JSON_QUOTE, excludes=excludes), whole + halves)
    assert accepted == [True] * len(whole) + [False] * len(halves)


def test_text_that_cannot_end_admits_nothing(xgrammar: Worker) -> None:
    assert admit_texts(xgrammar, Str(JSON_QUOTE, excludes=('"',)), ['"', '""', '"a"']) == [False, False, False]
