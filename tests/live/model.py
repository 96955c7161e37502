"""The real model in this process, loaded once for all live tests, under any format."""

from __future__ import annotations

from functools import lru_cache

from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.servers import MODEL


@lru_cache(maxsize=2)
def generator(number: int = 0) -> LlamaGenerator:
    """Each generator has one thread, so two of them use two cores."""
    return LlamaGenerator(MODEL, threads=1, slots=4, context=4096)


def smol(format: str | None = None, *, number: int = 0, **options: object) -> TextEngine:
    return TextEngine(generator(number), TextOptions(format=format, **options))  # type: ignore[arg-type]
