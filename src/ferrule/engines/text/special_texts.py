"""SpecialTexts: finds the special tokens of a model in texts from outside, by asking the model's tokenizer.

Which texts are special only the tokenizer knows. Most texts need no question: a special token contains a bracket or a
bar. Answers are remembered, because a conversation is sent again with every turn. Must not know any backend.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable

from ferrule.wire.neutral_text import likely_special_texts

Find = Callable[[str], Awaitable[frozenset[str]]]
_SUSPICIOUS = re.compile(r"[<>\[\]{}()|｜«»⟨⟩【】]")
_MAX_REMEMBERED = 20_000


class SpecialTexts:
    """The special tokens in texts. Without a tokenizer, what is special in any model family counts as special."""

    def __init__(self, find: Find | None) -> None:
        self._find = find or _find_likely
        # By the hash of the text, which is 64 bits with a key of this process.
        self._remembered: dict[int, frozenset[str]] = {}

    async def among(self, texts: Iterable[str]) -> frozenset[str]:
        """Return the special tokens that occur in the texts."""
        suspicious = {hash(text): text for text in texts if _SUSPICIOUS.search(text)}
        unknown = {key: text for key, text in suspicious.items() if key not in self._remembered}
        if unknown:
            found = await self._find("\n".join(unknown.values()))
            for key, text in unknown.items():
                self._remembered[key] = frozenset(special for special in found if special in text) if found else found
        result = frozenset[str]().union(*(self._remembered[key] for key in suspicious))
        while len(self._remembered) > _MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return result


async def _find_likely(text: str) -> frozenset[str]:
    return likely_special_texts(text)
