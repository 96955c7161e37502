"""Canary: whether a backend really holds to a grammar in some language, found by asking it to write one word.

llama.cpp goes on without a grammar that it cannot read, and says nothing; vLLM refuses what is not in the language of
the backend that it runs. What a backend says that it takes is not believed until it has sung.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from ferrule.core.json_text import dumps
from ferrule.engines.generator import Ended, Grammar, Piece, Writing
from ferrule.errors import EngineError

WORD = "ferrule"
# Besides the word, everything that our grammars use stands in them: what is not understood would spoil the whole.
SONGS: Mapping[str, Grammar] = {
    "lark": Grammar(
        "lark",
        f'start: "{WORD}" (until | json)?\n'
        'until[lazy]: TEXT "."\n'
        "TEXT: /(?s:.)*/ & ~/(?s:.*)x(?s:.*)/\n"
        'json: %json {"type": "string", "maxLength": 3, "x-guidance": {"whitespace_flexible": false}}\n',
    ),
    "gbnf": Grammar("gbnf", f'root ::= "{WORD}" [a-z]{{0,3}}\n'),
    "structural_tag": Grammar(
        "structural_tag",
        dumps(
            {"type": "structural_tag", "format": {"type": "grammar", "grammar": f'root ::= "{WORD}" [a-z]{{0,3}}\n'}}
        ),
    ),
}
_TOKENS = 8


async def sings(write: Callable[[Writing], AsyncGenerator[Piece | Ended, None]], target: str) -> bool:
    """Whether the backend is held by a grammar in the target's language."""
    written = ""
    asked = Writing(prompt="Say hello.", grammar=SONGS[target], max_tokens=_TOKENS, temperature=0.0)
    try:
        async with aclosing(write(asked)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Piece):
                    written += piece.text
    except EngineError as refusal:
        if refusal.code != "engine_refused":
            raise
        return False
    return bool(written) and (written.startswith(WORD) or WORD.startswith(written))
