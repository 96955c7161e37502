"""The worker process for random walks under xgrammar's own mask; one JSON line per request and per answer.

Request: {"tag": {...}, "vocabulary": path, "lures": [text, ...], "seed", "walks": how many, "most": tokens of a walk}
Answer: {"walks": [{"text", "is_finished", "problem"}, ...], "error", "seconds"}

A line of the vocabulary is a token in base64; the token of a marker is represented by its text, as vLLM and SGLang do
for xgrammar. "lures" are texts that a walk tries to write in free text, as far as the mask allows.
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
# Texts that end strings and values. Without a bias towards them a walk would never leave its first string.
_CLOSERS: Final = tuple("\"}])>\n<|',")
# How often a walk in free text chooses a closer or a lure; near its last token it always does.
_PULL: Final = 0.4
_LURED: Final = 0.6
# If at most this many tokens are allowed, the text is forced, and a walk mostly takes the longest piece of it.
_FEW: Final = 40
_LONGEST: Final = 0.8
_ENDS: Final = 0.15


class Walker:
    """A vocabulary, xgrammar's data for it, and a mask buffer."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self._xgrammar: Any = importlib.import_module("xgrammar")
        self._numpy: Any = importlib.import_module("numpy")
        self._tokens = tokens
        self._ids = {token: number for number, token in enumerate(tokens)}
        tokenizer_info = self._xgrammar.TokenizerInfo([*tokens, _END], stop_token_ids=[len(tokens)])
        self._compiler = self._xgrammar.GrammarCompiler(tokenizer_info, max_threads=1, cache_enabled=False)
        self._mask = self._xgrammar.allocate_token_bitmask(1, len(tokens) + 1)

    def compile(self, tag: str) -> Any:
        return self._compiler.compile_structural_tag(tag)

    def walk(self, compiled: Any, luck: random.Random, lures: Sequence[str], most: int) -> Mapping[str, Any]:
        """Make one walk, until the mask allows the text to end and the random choice is to end it."""
        matcher = self._xgrammar.GrammarMatcher(compiled)
        ids: list[int] = []
        wish = b""
        while len(ids) < most:
            allowed, may_end = self._allowed_tokens(matcher)
            count = int(self._numpy.count_nonzero(allowed))
            if may_end and (luck.random() < _ENDS or not count):
                return self._outcome(ids, is_finished=True)
            if not count:
                return self._outcome(ids, problem="no token is allowed and the text is not finished")
            if not wish and count > _FEW and luck.random() < _PULL + (1 - _PULL) * len(ids) / most:
                wish = luck.choice(lures if luck.random() < _LURED else _CLOSERS).encode()
            token = self._longest_prefix_token(wish, allowed)
            if token is None:
                wish, token = b"", self._any(allowed, count, luck)
            wish = wish[len(self._tokens[token]) :]
            if not matcher.accept_token(token):
                return self._outcome(ids, problem=f"{self._tokens[token]!r} is in the mask but is refused")
            ids.append(token)
        return self._outcome(ids)

    def _longest_prefix_token(self, wish: bytes, allowed: Any) -> int | None:
        """The longest allowed token that is a prefix of the wish."""
        pieces = (self._ids.get(wish[:size]) for size in range(len(wish), 0, -1))
        return next((number for number in pieces if number is not None and allowed[number]), None)

    def _any(self, allowed: Any, count: int, luck: random.Random) -> int:
        numbers = self._numpy.flatnonzero(allowed)
        if count <= _FEW and luck.random() < _LONGEST:
            return max(map(int, numbers), key=lambda number: (len(self._tokens[number]), luck.random()))
        return int(numbers[luck.randrange(count)])

    def _allowed_tokens(self, matcher: Any) -> tuple[Any, bool]:
        """The tokens that may come next, as a 0/1 array, and whether the text may end here."""
        self._xgrammar.reset_token_bitmask(self._mask)
        matcher.fill_next_token_bitmask(self._mask)
        bits = self._numpy.unpackbits(self._mask.numpy()[0].view(self._numpy.uint8), bitorder="little")
        return bits[: len(self._tokens)], bool(bits[len(self._tokens)])

    def _outcome(self, ids: list[int], is_finished: bool = False, problem: str = "") -> Mapping[str, Any]:
        # In free text the mask allows incomplete UTF-8, which engines show as the replacement character.
        text = b"".join(self._tokens[number] for number in ids).decode(errors="replace")
        return {"text": text, "is_finished": is_finished, "problem": problem}


@lru_cache(maxsize=1)
def _walker(vocabulary: str) -> Walker:
    return Walker([base64.b64decode(line) for line in Path(vocabulary).read_bytes().splitlines()])


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    walker, tag, luck = _walker(request["vocabulary"]), json.dumps(request["tag"]), random.Random(request["seed"])

    def walks() -> Mapping[str, Any]:
        compiled = walker.compile(tag)
        steps = [walker.walk(compiled, luck, request["lures"], request["most"]) for _ in range(request["walks"])]
        return {"walks": steps, "error": None}

    return walks


if __name__ == "__main__":
    # Before the first request: on a busy machine the import takes longer than a request may.
    importlib.import_module("numpy")
    importlib.import_module("xgrammar")
    serve(prepare, blank={"walks": []})
