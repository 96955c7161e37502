"""A backend counts as enforcing grammars only after it has passed the probe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from ferrule.engines.generator import CompletionEnd, CompletionRequest, Piece
from ferrule.engines.grammar import PROBE_GRAMMARS, PROBE_WORD, honours_grammar
from ferrule.errors import EngineError, EngineUnavailableError
from ferrule.rules.matcher import grammar_error


def probe_result(*texts: str, error: EngineError | None = None) -> bool:
    async def write(request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        if error:
            raise error
        for text in texts:
            yield Piece(text)
        yield CompletionEnd(True)

    return asyncio.run(honours_grammar(write, "lark"))


@pytest.mark.parametrize("texts", [(PROBE_WORD,), ("fer", "rule abc"), ("fer",)])
def test_the_word_or_its_beginning_passes_the_probe(texts: tuple[str, ...]) -> None:
    assert probe_result(*texts)


@pytest.mark.parametrize("texts", [(), ("Hello!",), ("ferry",)])
def test_anything_else_fails_the_probe(texts: tuple[str, ...]) -> None:
    assert not probe_result(*texts)


def test_a_backend_that_refuses_the_grammar_fails_and_one_that_is_down_is_an_error() -> None:
    assert not probe_result(error=EngineError("what grammar?", code="engine_refused"))
    with pytest.raises(EngineUnavailableError):
        probe_result(error=EngineUnavailableError("down"))


def test_the_probe_grammar_compiles() -> None:
    assert grammar_error(PROBE_GRAMMARS["lark"].text) == ""
