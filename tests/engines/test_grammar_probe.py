"""A backend is believed to be held by a grammar only after it has sung."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from ferrule.engines.generator import Ended, Piece, Writing
from ferrule.engines.grammar_probe import SONGS, WORD, sings
from ferrule.errors import EngineError, EngineUnavailableError
from ferrule.rules.matcher import grammar_error


def heard(*texts: str, error: EngineError | None = None) -> bool:
    async def write(writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        if error:
            raise error
        for text in texts:
            yield Piece(text)
        yield Ended(True)

    return asyncio.run(sings(write, "lark"))


@pytest.mark.parametrize("texts", [(WORD,), ("fer", "rule abc"), ("fer",)])
def test_the_word_or_its_beginning_is_a_song(texts: tuple[str, ...]) -> None:
    assert heard(*texts)


@pytest.mark.parametrize("texts", [(), ("Hello!",), ("ferry",)])
def test_anything_else_is_none(texts: tuple[str, ...]) -> None:
    assert not heard(*texts)


def test_a_backend_that_refuses_the_grammar_is_not_held_by_it_and_one_that_is_down_is_an_error() -> None:
    assert not heard(error=EngineError("what grammar?", code="engine_refused"))
    with pytest.raises(EngineUnavailableError):
        heard(error=EngineUnavailableError("down"))


def test_the_song_itself_compiles() -> None:
    assert grammar_error(SONGS["lark"].text) == ""
