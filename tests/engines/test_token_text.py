"""Generated text stays in the tokens that the model chose."""

import asyncio

import pytest

from ferrule.engines.text.token_text import TokenText
from laws.minded import NO_TOKENIZER, Vocabulary


def token_texts(vocabulary: Vocabulary, token_text: TokenText) -> list[str]:
    assert token_text.tokens is not None
    return [vocabulary.spell((token,)) for token in token_text.tokens]


@pytest.mark.parametrize(
    "generated, text, overhang, appended, expected",
    [
        # The model wrote the quote and the comma as two tokens, so they stay two tokens.
        (("Paris", '"', ","), 'Paris",', "", ' "b', ["Paris", '"', ",", ' "b']),
        # The last token extends beyond the stop.
        ((" true",), " t", "rue", ", b", [" true", ", b"]),
        (("a", '", '), 'a"', ", ", "b", ["a", '", ', "b"]),
    ],
)
def test_generated_text_stays_in_its_tokens(
    generated: tuple[str, ...], text: str, overhang: str, appended: str, expected: list[str]
) -> None:
    vocabulary = Vocabulary(6)

    async def scenario() -> None:
        token_text = TokenText(vocabulary.tokenizer)
        await token_text.start("prompt")
        token_ids = [vocabulary.number(one) for one in generated]
        assert await token_text.add_generated(token_ids, text, len(generated)) == overhang
        assert await token_text.append(appended) == 1
        assert token_texts(vocabulary, token_text) == ["prompt", *expected]

    asyncio.run(scenario())


@pytest.mark.parametrize("appended, expected", [("", ["a", '"']), ("}", ["a", '"}'])])
def test_an_end_that_is_removed_takes_its_token_with_it(appended: str, expected: list[str]) -> None:
    vocabulary = Vocabulary(6)

    async def scenario() -> None:
        token_text = TokenText(vocabulary.tokenizer)
        await token_text.start("prompt")
        overhang = await token_text.add_generated([vocabulary.number("a"), vocabulary.number('", 1')], 'a"', 2)
        await token_text.remove_end(overhang)
        assert await token_text.append(appended) == 1
        assert token_texts(vocabulary, token_text) == ["prompt", *expected]

    asyncio.run(scenario())


def test_without_tokens_the_text_is_used() -> None:
    async def scenario() -> None:
        vocabulary = Vocabulary()
        short = TokenText(vocabulary.tokenizer)
        await short.start("prompt")
        # Two tokens were counted, but only one was reported.
        await short.add_generated([vocabulary.number("a")], "ab", 2)
        assert short.tokens is None
        assert await short.append("c") is None
        await short.add_generated([vocabulary.number("d")], "d", 1)
        assert short.tokens is None
        wrong = TokenText(vocabulary.tokenizer)
        await wrong.start("prompt")
        # An engine that generates several tokens at once may report more than came before the stop.
        await wrong.add_generated([vocabulary.number("a"), vocabulary.number("x"), vocabulary.number("b")], "ab", 3)
        assert wrong.tokens is None
        nobody = TokenText(NO_TOKENIZER)
        await nobody.start("prompt")
        assert nobody.tokens is None

    asyncio.run(scenario())


def test_a_text_is_tokenized_once() -> None:
    vocabulary = Vocabulary()
    tokenized: list[str] = []

    async def scenario() -> None:
        tokenizer = vocabulary.tokenizer
        tokenize = tokenizer.tokenize

        async def recording_tokenize(text: str) -> tuple[int, ...] | None:
            tokenized.append(text)
            return await tokenize(text)

        tokenizer.tokenize = recording_tokenize
        assert await tokenizer.tokens("abcd") == await tokenizer.tokens("abcd")
        assert await tokenizer.tokens("") == ()

    asyncio.run(scenario())
    assert tokenized == ["abcd"]


def test_a_tokenizer_that_puts_a_space_before_every_text_is_not_used() -> None:
    async def scenario() -> None:
        vocabulary = Vocabulary()
        tokenizer = vocabulary.tokenizer
        tokenize = tokenizer.tokenize

        async def tokenize_with_space(text: str) -> tuple[int, ...] | None:
            return await tokenize(f" {text}")

        tokenizer.tokenize = tokenize_with_space
        token_text = TokenText(tokenizer)
        await token_text.start("prompt")
        assert await token_text.append("abc") is None
        assert token_text.tokens is None

    asyncio.run(scenario())
