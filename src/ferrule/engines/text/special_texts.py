"""SpecialTexts: finds the special tokens of a model in texts from outside, by asking the model's tokenizer.

Which texts are special only the tokenizer knows. Most texts need no question: a special token contains a bracket or a
bar. Answers are remembered, because a conversation is sent again with every turn. Must not know any backend.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from sys import getsizeof

from ferrule.core.byte_cache import ByteCache
from ferrule.wire.neutral_text import likely_special_texts

Find = Callable[[str], Awaitable[frozenset[str]]]
_SUSPICIOUS = re.compile(r"[<>\[\]{}()|｜«»⟨⟩【】]")


class SpecialTexts:
    """The special tokens in texts. Without a tokenizer, what is special in any model family counts as special."""

    def __init__(self, find: Find | None) -> None:
        self._find = find
        # By the hash of the text, which is 64 bits with a key of this process.
        self._remembered: ByteCache[int, frozenset[str]] = ByteCache(_size_of)

    async def among(self, texts: Iterable[str]) -> frozenset[str]:
        """Return the special tokens that occur in the texts."""
        suspicious = {hash(text): text for text in texts if _SUSPICIOUS.search(text)}
        remembered = {key: self._remembered.lookup(key) for key in suspicious}
        unknown = {key: suspicious[key] for key, found in remembered.items() if found is None}
        result = frozenset[str]().union(*(found for found in remembered.values() if found))
        if unknown:
            for key, special_texts in (await self._special_texts(unknown)).items():
                result |= self._remembered.get(key, lambda special_texts=special_texts: special_texts)
        return result

    async def _special_texts(self, texts: Mapping[int, str]) -> dict[int, frozenset[str]]:
        if self._find is None:
            # Whatever looks like a token counts, so clients choose how many there are.
            return await asyncio.to_thread(lambda: {key: likely_special_texts(text) for key, text in texts.items()})
        found = await self._find("\n".join(texts.values()))
        if not found:
            return dict.fromkeys(texts, found)
        return await asyncio.to_thread(
            lambda: {key: frozenset(one for one in found if one in text) for key, text in texts.items()}
        )


def _size_of(key: int, found: frozenset[str]) -> int:
    return 256 + (getsizeof(found) + sum(map(getsizeof, found)) if found else 0)
