"""Vocabulary: what computing a mask requires of a tokenizer. Engines read the tokenizer files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The bytes of each token by id, the special tokens by text, and the id of the token that ends a reply."""

    tokens: Sequence[bytes]
    specials: Mapping[str, int]
    end: int
    longest: int = field(init=False)
    ids: Mapping[bytes, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        special = {*self.specials.values(), self.end}
        plain = {token: number for number, token in enumerate(self.tokens) if number not in special and token}
        object.__setattr__(self, "ids", plain)
        object.__setattr__(self, "longest", max(map(len, plain), default=1))

    def __len__(self) -> int:
        return len(self.tokens)

    def encode_greedily(self, data: bytes) -> list[int]:
        """Tokenize by longest match. A tokenizer may split differently, but the bytes are the same.

        Unknown bytes are dropped.
        """
        token_ids: list[int] = []
        at = 0
        while at < len(data):
            sizes = range(min(self.longest, len(data) - at), 0, -1)
            size = next((size for size in sizes if data[at : at + size] in self.ids), 0)
            if size:
                token_ids.append(self.ids[data[at : at + size]])
            at += size or 1
        return token_ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the tokens; special tokens appear as their text."""
        names = {number: text.encode() for text, number in self.specials.items()}
        return b"".join(names.get(n, self.tokens[n]) for n in ids if n != self.end).decode("utf-8", "replace")
