"""An answer is gone on with in the tokens that the model chose."""

import asyncio

import pytest

from ferrule.engines.text.token_text import Spelling
from laws.minded import NO_TOKENIZER, Vocabulary


def after(words: Vocabulary, wrote: tuple[str, ...], text: str, then: str) -> tuple[Spelling, int | None]:
    """A prompt, what the model wrote up to a stop, and what is appended to it."""

    async def scenario() -> tuple[Spelling, int | None]:
        spelling = Spelling(words.tokenizer)
        await spelling.begin("prompt")
        await spelling.append("")
        await spelling.wrote([words.number(one) for one in wrote], text, len(wrote))
        return spelling, await spelling.append(then)

    return asyncio.run(scenario())


def spelled(words: Vocabulary, spelling: Spelling) -> list[str]:
    assert spelling.tokens is not None
    return [words.spell((token,)) for token in spelling.tokens]


@pytest.mark.parametrize(
    "wrote, text, then, found, added",
    [
        # It chose to write the quote and the comma apart, and so they stay.
        (("Paris", '"', ","), 'Paris",', ' "b', ["Paris", '"', ",", ' "b'], 1),
        # A token that reached into what is forced.
        ((" true",), " t", "rue", [" true"], 0),
        ((" true",), " t", "rue, b", [" true", ", b"], 1),
        # One that reached further is taken back.
        (("a", '",'), 'a"', "", ["a", '"'], 1),
        (("a", '", '), 'a"', "}", ["a", '"}'], 1),
    ],
)
def test_what_was_written_stays_in_its_tokens(
    wrote: tuple[str, ...], text: str, then: str, found: list[str], added: int
) -> None:
    words = Vocabulary(6)
    spelling, count = after(words, wrote, text, then)
    assert spelled(words, spelling) == ["prompt", *found]
    assert count == added


def test_where_tokens_are_missing_the_text_has_to_do() -> None:
    async def scenario() -> None:
        words = Vocabulary()
        short = Spelling(words.tokenizer)
        await short.begin("prompt")
        # Two tokens were counted, and one told.
        await short.wrote([words.number("a")], "ab", 2)
        assert short.tokens is None
        assert await short.append("c") is None
        await short.wrote([words.number("d")], "d", 1)
        assert short.tokens is None
        wrong = Spelling(words.tokenizer)
        await wrong.begin("prompt")
        # An engine that writes several tokens at once may tell more than what came before the stop.
        await wrong.wrote([words.number("a"), words.number("x"), words.number("b")], "ab", 3)
        assert wrong.tokens is None
        nobody = Spelling(NO_TOKENIZER)
        await nobody.begin("prompt")
        assert nobody.tokens is None

    asyncio.run(scenario())


def test_a_text_is_cut_once() -> None:
    words = Vocabulary()
    asked: list[str] = []

    async def scenario() -> None:
        tokenizer = words.tokenizer
        cut = tokenizer.cut

        async def counted(text: str) -> tuple[int, ...] | None:
            asked.append(text)
            return await cut(text)

        tokenizer.cut = counted
        assert await tokenizer.tokens("abcd") == await tokenizer.tokens("abcd")
        assert await tokenizer.tokens("") == ()

    asyncio.run(scenario())
    assert asked == ["abcd"]


def test_a_tokenizer_that_puts_a_space_before_every_text_is_not_gone_on_with() -> None:
    async def scenario() -> None:
        words = Vocabulary()
        tokenizer = words.tokenizer
        cut = tokenizer.cut

        async def spaced(text: str) -> tuple[int, ...] | None:
            return await cut(f" {text}")

        tokenizer.cut = spaced
        spelling = Spelling(tokenizer)
        await spelling.begin("prompt")
        assert await spelling.append("abc") is None
        assert spelling.tokens is None

    asyncio.run(scenario())
