"""Grammars for engines: writes a rule in the grammar language that an engine accepts. Must not know any engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ferrule.core.json_text import dumps
from ferrule.engines.generator import Grammar, ModelFacts
from ferrule.errors import FormatError
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.rule import Rule
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.wire.encoding import encoding_of
from ferrule.wire.format import Format

Emitter = Callable[[Rule, ModelFacts], Grammar]


def _lark_grammar(rule: Rule, facts: ModelFacts) -> Grammar:
    # Compiling it here finds errors early: some engines silently continue without a grammar that does not compile or
    # that their matcher abandons half way. The matcher also watches what the engine writes.
    matcher = ByteMatcher(emit_lark(rule))
    return Grammar("lark", emit_lark(rule, facts.special_tokens, facts.end_tokens), make_watcher=matcher.prefix_matcher)


def _gbnf_grammar(rule: Rule, facts: ModelFacts) -> Grammar:
    gbnf = emit_gbnf(rule)
    # Free text under GBNF costs time for every token. An engine that waits for the first marker spends none on it.
    if gbnf.triggered is not None:
        return Grammar("gbnf", gbnf.triggered, gbnf.triggers)
    return Grammar("gbnf", gbnf.text)


def _structural_tag_grammar(rule: Rule, facts: ModelFacts) -> Grammar:
    return Grammar("structural_tag", dumps(emit_structural_tag(rule)))


EMITTERS: Mapping[str, Emitter] = {
    "lark": _lark_grammar,
    "gbnf": _gbnf_grammar,
    "structural_tag": _structural_tag_grammar,
}
CANONICAL_TOKEN_TARGETS = frozenset({"lark"})
"""Targets whose matcher (llguidance) allows forced text only in the tokens that the tokenizer produces for it.

Other matchers allow any tokens that spell the text. The model then reads other tokens than it does when the text is
appended, and its later choices may differ.
"""


def grammar_of(rule: Rule, target: str, facts: ModelFacts) -> Grammar:
    """Write the rule in a target's language, for a model."""
    if target not in EMITTERS:
        raise FormatError(f"unknown grammar target {target!r}", hint=f"Use one of: {', '.join(EMITTERS)}.")
    return EMITTERS[target](rule, facts)


def encoding_for(format: Format, target: str | None) -> str | None:
    """Return how a grammar constrains the arguments; None without a grammar.

    Only Lark embeds JSON schemas. For other targets the schema is lowered to grammar rules.
    """
    if target is None:
        return None
    encoding = encoding_of(format)
    return encoding if target == "lark" else f"{encoding}, lowered"
