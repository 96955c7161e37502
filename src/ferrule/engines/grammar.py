"""Grammars for engines: a rule in the language that one takes, made once per tool set. Must not know any engine."""

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

Emit = Callable[[Rule, ModelFacts], Grammar]


def _lark(rule: Rule, facts: ModelFacts) -> Grammar:
    # An engine may go on in silence without a grammar that does not compile, or that its matcher gives up on half way.
    held = ByteMatcher(emit_lark(rule))
    return Grammar("lark", emit_lark(rule, facts.specials, facts.ends), watch=held.watch)


def _gbnf(rule: Rule, facts: ModelFacts) -> Grammar:
    made = emit_gbnf(rule)
    # Free text under GBNF costs time with every token, and an engine that can wait for the first mark spends none.
    if made.triggered is not None:
        return Grammar("gbnf", made.triggered, made.triggers)
    return Grammar("gbnf", made.text)


def _structural_tag(rule: Rule, facts: ModelFacts) -> Grammar:
    return Grammar("structural_tag", dumps(emit_structural_tag(rule)))


EMITTERS: Mapping[str, Emit] = {"lark": _lark, "gbnf": _gbnf, "structural_tag": _structural_tag}
ONE_SPELLING = frozenset({"lark"})
"""Targets whose matcher (llguidance) lets forced text be written in no other tokens than the tokenizer cuts it into.

Under the others a model may spell it its own way, and what it then reads is not what it reads where it is appended.
"""


def grammar_of(rule: Rule, target: str, facts: ModelFacts) -> Grammar:
    """The rule in a target's language, for a model."""
    if target not in EMITTERS:
        raise FormatError(f"no grammar is written in {target!r}", hint=f"The targets are {', '.join(EMITTERS)}.")
    return EMITTERS[target](rule, facts)


def encoding_under(format: Format, target: str | None) -> str | None:
    """How arguments are held while decoding, None where no grammar is in force.

    JSON goes to a compiler of schemas only where the target has one.
    """
    if target is None:
        return None
    written = encoding_of(format)
    return written if target == "lark" else f"{written}, lowered"
