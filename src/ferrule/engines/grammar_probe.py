"""Grammar probe: tests whether a backend enforces grammars of a language, by having it generate one fixed word.

llama.cpp silently continues without a grammar that it cannot parse. vLLM refuses a language that its grammar backend
does not support. So a backend's claims are not trusted until it has passed this probe.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from ferrule.core.json_text import dumps
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Grammar, Piece
from ferrule.errors import EngineError

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
        if refusal.code != "engine_refused":
            raise
        return False
    return bool(text) and (text.startswith(PROBE_WORD) or PROBE_WORD.startswith(text))
