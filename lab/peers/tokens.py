"""A stand-in tokenizer: special tokens of a format whole, everything else in pieces of at most three characters.

A real vocabulary would split ordinary text elsewhere. For a parser only two things matter: a special token arrives
whole with its own id, and ordinary text arrives in small pieces that may end anywhere.
"""

import re
from collections.abc import Collection, Sequence

PIECE = 3
END_ID = 999
_FIRST_ORDINARY_ID = 1_000


def pieces(text: str, specials: Sequence[str]) -> list[str]:
    """The tokens of `text`: a special token whole, the text between in pieces of at most `PIECE` characters."""
    cut: list[str] = []
    for part in _parts(text, specials):
        if part in specials:
            cut.append(part)
        else:
            cut.extend(part[start : start + PIECE] for start in range(0, len(part), PIECE))
    return cut


def chunks(text: str, specials: Sequence[str], tokens_per_chunk: int | None) -> list[str]:
    """Split `text` as an engine delivers it, this many tokens at a time; None is everything at once.

    The token that ends the reply counts, although it has no text: if it is alone in a chunk, as it always is with one
    token at a time, the last chunk is empty. Parsers differ in how they handle that.
    """
    cut = [*pieces(text, specials), ""]
    step = tokens_per_chunk or len(cut)
    return ["".join(cut[start : start + step]) for start in range(0, len(cut), step)]


def _parts(text: str, specials: Sequence[str]) -> list[str]:
    if not specials:
        return [text] if text else []
    longest_first = sorted(specials, key=len, reverse=True)
    pattern = "(" + "|".join(re.escape(special) for special in longest_first) + ")"
    return [part for part in re.split(pattern, text) if part]


class Tokenizer:
    """The part of a Hugging Face tokenizer that vLLM's and SGLang's parsers use."""

    def __init__(self, specials: Sequence[str], not_special: Collection[str] = ()) -> None:
        self._specials = list(specials)
        self._listed = [token for token in specials if token not in not_special]
        self._ids = {token: number for number, token in enumerate(self._specials)}
        self._texts = dict(enumerate(self._specials))

    @property
    def all_special_tokens(self) -> list[str]:
        return self._listed

    @property
    def all_special_ids(self) -> list[int]:
        return [self._ids[token] for token in self._listed]

    def get_vocab(self) -> dict[str, int]:
        return self._ids

    def encode(self, text: str, **_options: object) -> list[int]:
        return [self._number(piece) for piece in pieces(text, self._specials)]

    def decode(self, ids: Sequence[int] | int, **_options: object) -> str:
        token_ids = [ids] if isinstance(ids, int) else ids
        return "".join(self._texts.get(number, "") for number in token_ids)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._ids.get(token)

    def _number(self, piece: str) -> int:
        if piece not in self._ids:
            number = _FIRST_ORDINARY_ID + len(self._ids)
            self._ids[piece] = number
            self._texts[number] = piece
        return self._ids[piece]
