"""Grammars for engines: writes a rule in the grammar language that an engine accepts. Must not know any engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing

from ferrule.core.json_text import dumps
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Grammar, ModelFacts, Piece
from ferrule.errors import EngineError, FormatError
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark_pair
from ferrule.rules.lowering import Lowering
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.rule import Rule
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.wire.format import Format, encoding_of
from ferrule.wire.rule_builder import bind

Emitter = Callable[[Rule, ModelFacts], Grammar]


def _lark_grammar(rule: Rule, facts: ModelFacts) -> Grammar:
    # Compiling it here finds errors early: some engines silently continue without a grammar that does not compile or
    # that their matcher abandons half way. The matcher also watches what the engine writes.
    pair = emit_lark_pair(rule, facts.special_tokens, facts.end_tokens)
    return Grammar("lark", pair.of_tokens, make_watcher=ByteMatcher(pair.of_characters).prefix_matcher)


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


def lost_grammars(format: Format, target: str | None, tools: Iterable[ToolDefinition]) -> frozenset[str]:
    """The custom tools whose own grammar is not held while decoding; it is validated afterwards."""
    with_grammar = [tool for tool in tools if tool.input_grammar is not None]
    return frozenset(tool.name for tool in with_grammar if target != "lark" or not _can_hold(format, tool))


def _can_hold(format: Format, tool: ToolDefinition) -> bool:
    lowering = Lowering(has_grammars=True)
    lowering.lower(bind(format, (tool,), ToolChoice.required()).start)
    return not lowering.lost_grammars


# Grammar probe: tests whether a backend enforces grammars of a language, by having it generate one fixed word.
#
# llama.cpp silently continues without a grammar that it cannot parse. vLLM refuses a language that its grammar
# backend does not support. So a backend's claims are not trusted until it has passed this probe.

PROBE_WORD = "ferrule"
# Besides the word, these contain every construct that our grammars use: one unsupported construct breaks a grammar.
PROBE_GRAMMARS: Mapping[str, Grammar] = {
    "lark": Grammar(
        "lark",
        f'start: "{PROBE_WORD}" (until | json)?\n'
        'until[lazy]: TEXT "."\n'
        "TEXT: /(?s:.)*/ & ~/(?s:.*)x(?s:.*)/\n"
        'json: %json {"type": "string", "maxLength": 3, "x-guidance": {"whitespace_flexible": false}}\n',
    ),
    "gbnf": Grammar("gbnf", f'root ::= "{PROBE_WORD}" [a-z]{{0,3}}\n'),
    "structural_tag": Grammar(
        "structural_tag",
        dumps(
            {
                "type": "structural_tag",
                "format": {"type": "grammar", "grammar": f'root ::= "{PROBE_WORD}" [a-z]{{0,3}}\n'},
            }
        ),
    ),
}
_MAX_TOKENS = 8


async def honours_grammar(
    generate: Callable[[CompletionRequest], AsyncGenerator[Piece | CompletionEnd, None]], target: str
) -> bool:
    """Whether the backend enforces a grammar in the target's language."""
    text = ""
    request = CompletionRequest(
        prompt="Say hello.", grammar=PROBE_GRAMMARS[target], max_tokens=_MAX_TOKENS, temperature=0.0
    )
    try:
        async with aclosing(generate(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Piece):
                    text += piece.text
    except EngineError as refusal:
        if not refusal.is_refusal:
            raise
        return False
    return bool(text) and (text.startswith(PROBE_WORD) or PROBE_WORD.startswith(text))
