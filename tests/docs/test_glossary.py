"""The glossary has Ferrule's own words, in order, and each entry says where a term is explained."""

from __future__ import annotations

import re

import pytest

from docs.pages import DOCS

ENTRY = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)
ENTRIES = dict(ENTRY.findall((DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")))
# AGENTS.md, "Our own words".
OWN = "Format, node, Rule, target, Receipt, dialect, source, ledger, doctor, skip, Fault, Principal"


def test_the_terms_are_in_alphabetical_order() -> None:
    terms = [term.casefold() for term in ENTRIES]
    assert terms == sorted(terms)


def test_every_word_of_our_own_has_an_entry() -> None:
    terms = {part.casefold() for term in ENTRIES for part in term.split(", ")}
    assert set(OWN.casefold().split(", ")) <= terms


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_is_short_and_leads_to_a_page(term: str) -> None:
    text = ENTRIES[term]
    assert re.search(r"\]\([\w./-]+\.md(#[\w-]+)?\)$", text), "end with a link to the page that explains it"
    sentences = re.sub(r"\[[^]]*\]\([^)]*\),? ?", "", text)
    assert len(re.findall(r"[.:](?= |$)", sentences)) <= 4
