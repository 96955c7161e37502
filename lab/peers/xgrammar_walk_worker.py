"""The process that walks under xgrammar's own mask, choosing allowed tokens by dice; one JSON line asks, one answers.

Asks: {"tag": {...}, "vocabulary": path, "lures": [text, ...], "seed", "walks": how many, "most": tokens of a walk}
Answers: {"walks": [{"text", "is_finished", "problem"}, ...], "error", "seconds"}

A line of the vocabulary is a token in base64; a token that the model has for a marker is there as its text, as vLLM and
SGLang show it to xgrammar. "lures" are texts that a walk tries to write wherever it is free, as far as it may.
"""

import base64
import importlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from lab.line_server import serve

_END: Final = b"<|end of the walk|>"
# What ends strings and values; without a pull towards them a walk stays in its first string for ever.
_CLOSERS: Final = tuple("\"}])>\n<|',")
# How often a walk that is free turns to a closer, or to a lure; towards its last token it does nothing else.
_PULL: Final = 0.4
_LURED: Final = 0.6
# Where no more tokens than this are allowed, the text is given, and a walk mostly takes the longest piece of it.
_FEW: Final = 40
_LONGEST: Final = 0.8
_ENDS: Final = 0.15


class Walker:
    """A vocabulary, what xgrammar knows of it, and a mask to fill."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self._xgrammar: Any = importlib.import_module("xgrammar")
        self._numpy: Any = importlib.import_module("numpy")
        self._tokens = tokens
        self._ids = {token: number for number, token in enumerate(tokens)}
        known = self._xgrammar.TokenizerInfo([*tokens, _END], stop_token_ids=[len(tokens)])
        self._compiler = self._xgrammar.GrammarCompiler(known, max_threads=1, cache_enabled=False)
        self._mask = self._xgrammar.allocate_token_bitmask(1, len(tokens) + 1)

    def compiled(self, tag: str) -> Any:
        return self._compiler.compile_structural_tag(tag)

    def walked(self, compiled: Any, luck: random.Random, lures: Sequence[str], most: int) -> Mapping[str, Any]:
        """One walk, until the mask lets the text end and the dice say so."""
        matcher = self._xgrammar.GrammarMatcher(compiled)
        ids: list[int] = []
        wish = b""
        while len(ids) < most:
            allowed, may_end = self._allowed(matcher)
            count = int(self._numpy.count_nonzero(allowed))
            if may_end and (luck.random() < _ENDS or not count):
                return self._outcome(ids, is_finished=True)
            if not count:
                return self._outcome(ids, problem="nothing is allowed and nothing is finished")
            if not wish and count > _FEW and luck.random() < _PULL + (1 - _PULL) * len(ids) / most:
                wish = luck.choice(lures if luck.random() < _LURED else _CLOSERS).encode()
            chosen = self._beginning(wish, allowed)
            if chosen is None:
                wish, chosen = b"", self._any(allowed, count, luck)
            wish = wish[len(self._tokens[chosen]) :]
            if not matcher.accept_token(chosen):
                return self._outcome(ids, problem=f"{self._tokens[chosen]!r} is in the mask and is refused")
            ids.append(chosen)
        return self._outcome(ids)

    def _beginning(self, wish: bytes, allowed: Any) -> int | None:
        """The longest allowed token that the wish begins with."""
        pieces = (self._ids.get(wish[:size]) for size in range(len(wish), 0, -1))
        return next((number for number in pieces if number is not None and allowed[number]), None)

    def _any(self, allowed: Any, count: int, luck: random.Random) -> int:
        numbers = self._numpy.flatnonzero(allowed)
        if count <= _FEW and luck.random() < _LONGEST:
            return max(map(int, numbers), key=lambda number: (len(self._tokens[number]), luck.random()))
        return int(numbers[luck.randrange(count)])

    def _allowed(self, matcher: Any) -> tuple[Any, bool]:
        """The tokens that may come next, as ones among zeros, and whether the text may end here."""
        self._xgrammar.reset_token_bitmask(self._mask)
        matcher.fill_next_token_bitmask(self._mask)
        bits = self._numpy.unpackbits(self._mask.numpy()[0].view(self._numpy.uint8), bitorder="little")
        return bits[: len(self._tokens)], bool(bits[len(self._tokens)])

    def _outcome(self, ids: list[int], is_finished: bool = False, problem: str = "") -> Mapping[str, Any]:
        # In free text the mask allows half a character, which engines show as the mark for what cannot be read.
        text = b"".join(self._tokens[number] for number in ids).decode(errors="replace")
        return {"text": text, "is_finished": is_finished, "problem": problem}


@lru_cache(maxsize=1)
def _walker(vocabulary: str) -> Walker:
    return Walker([base64.b64decode(line) for line in Path(vocabulary).read_bytes().splitlines()])


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    walker, tag, luck = _walker(request["vocabulary"]), json.dumps(request["tag"]), random.Random(request["seed"])

    def walks() -> Mapping[str, Any]:
        compiled = walker.compiled(tag)
        taken = [walker.walked(compiled, luck, request["lures"], request["most"]) for _ in range(request["walks"])]
        return {"walks": taken, "error": None}

    return walks


if __name__ == "__main__":
    serve(prepare, blank={"walks": []})
