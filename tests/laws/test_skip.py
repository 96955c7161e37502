"""Law 8: skipping does not change the result: the output is exactly what the model would have written.

The model is scripted: it has a rendered reply and continues it from wherever the prompt ends.
"""

from __future__ import annotations

import asyncio
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.byte_cache import ByteCache
from ferrule.engines.generator import CompletionRequest, Grammar, Piece
from ferrule.engines.text.skip import SkipGenerator, SkipStep
from ferrule.engines.text.skip_guard import SkipGuard
from ferrule.formats import all_formats
from ferrule.rules.lark import emit_lark
from ferrule.rules.rule import Rule
from ferrule.rules.skip.steps import SkipPlan
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.rule_builder import bind
from laws.minded import NO_TOKENIZER, PROMPT, ScriptedModel
from laws.minded import Vocabulary as GrowingVocabulary
from laws.replies import TOOLS, replies
from laws.test_rule_admits import CHOICES, writable_text
from laws.token_walks import AnsweringModel, AnswerWriter, answer_in, handmade_vocabulary, tokenizer_of
from sampling import sampled

FORMATS = all_formats()


@cache
def plan(name: str, choice: str) -> SkipPlan:
    return SkipPlan(bind(FORMATS[name], TOOLS, CHOICES[choice]))


@cache
def vocabulary_with(markers: tuple[str, ...]) -> Vocabulary:
    return handmade_vocabulary(markers)


def emit(rule: Rule) -> Grammar:
    return Grammar("lark", emit_lark(rule))


def generated_text(skipper: SkipGenerator, model: ScriptedModel | AnsweringModel) -> str:
    async def collect() -> str:
        text = ""
        async for piece in skipper.generate(model.generate, CompletionRequest(prompt=PROMPT, max_tokens=100_000)):
            text += piece.text if isinstance(piece, Piece) else ""
        return text

    return asyncio.run(collect())


@pytest.mark.parametrize("name, choice", sampled("skip", FORMATS, CHOICES, 1))
@settings(max_examples=4)
@given(data=st.data())
def test_the_output_is_what_the_model_would_have_written(name: str, choice: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    text = writable_text(form, choice, data.draw(replies(form)))
    if text is None:
        return
    model = ScriptedModel(text, data.draw(st.integers(1, 6)), checks=data.draw(st.booleans()))
    assert generated_text(SkipGenerator(plan(name, choice), emit, NO_TOKENIZER, SkipGuard()), model) == text


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=4)
@given(data=st.data())
def test_what_the_model_wrote_is_read_again_in_its_own_tokens(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    text = writable_text(form, "required", data.draw(replies(form)))
    if text is None:
        return
    words = GrowingVocabulary()
    model = ScriptedModel(text, data.draw(st.integers(1, 6)), words=words)
    assert generated_text(SkipGenerator(plan(name, "required"), emit, words.tokenizer, SkipGuard()), model) == text
    for before, ids, after in zip(model.read, model.wrote, model.read[1:], strict=False):
        # All tokens but the last, which is dropped if it reached beyond the forced text.
        assert after[: len(before) + len(ids) - 1] == (*before, *ids[:-1])


@pytest.mark.parametrize("name, choice", sampled("skip by tokens", FORMATS, ("required", "one"), 1))
@settings(max_examples=4)
@given(rng=st.randoms(use_true_random=False))
def test_the_model_reads_the_same_tokens_and_chooses_among_the_same(name: str, choice: str, rng: Random) -> None:
    skip_plan = plan(name, choice)
    vocabulary = vocabulary_with(skip_plan.rule.tokens if rng.random() < 0.5 else ())
    answer = AnswerWriter(vocabulary).write(emit(skip_plan.rule).text, rng)
    skipper = SkipGenerator(skip_plan, emit, tokenizer_of(vocabulary), SkipGuard())
    text = generated_text(skipper, AnsweringModel(answer, vocabulary))
    assert text.startswith(vocabulary.decode(answer.tokens))


@pytest.mark.parametrize(
    "city",
    [
        # The token of the opening quote contains what would otherwise end the string.
        [' ","'],
        [' ""'],
        # The end of the string, the end of the object and the line after it.
        [' "', "Paris", '"}}\n'],
        [' "', "Paris", '\\",', '"}', "}\n"],
    ],
)
@pytest.mark.parametrize("ends", [["</tool_call>"], ["</", "tool", "_call", ">"]])
def test_a_token_that_reaches_beyond_the_end_of_a_hole_stays_whole(city: list[str], ends: list[str]) -> None:
    skip_plan = plan("hermes", "required")
    vocabulary = handmade_vocabulary(skip_plan.rule.tokens)
    opening = [
        "<tool_call>",
        "\n",
        '{"',
        "name",
        '":',
        ' "',
        "get",
        "_weather",
        '",',
        ' "',
        "arguments",
        '":',
        ' {"',
        "city",
    ]
    closing = [] if city[-1].endswith("\n") else ["}}\n"]
    texts = [*opening, '":', *city, *closing, *ends]
    answer = answer_in(vocabulary, emit(skip_plan.rule).text, texts)
    skipper = SkipGenerator(skip_plan, emit, tokenizer_of(vocabulary), SkipGuard())
    assert generated_text(skipper, AnsweringModel(answer, vocabulary)) == "".join(texts)


def test_most_of_a_plain_call_is_not_generated() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
    model = ScriptedModel(text, 1)
    one = SkipPlan(bind(FORMATS["hermes"], TOOLS, CHOICES["required"], parallel=False))
    assert generated_text(SkipGenerator(one, emit, NO_TOKENIZER, SkipGuard()), model) == text
    assert model.generated < len(text) / 3
    assert model.requests == 4  # whether it reasons, which tool, which city, how many days


def test_the_second_call_of_an_answer_is_skipped_like_the_first() -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
    generated = list[int]()
    for count in (1, 2, 3):
        text = "\n".join([call] * count)
        model = ScriptedModel(text, 1, checks=True)
        # No marker is known to be a token, as on a model whose markers are ordinary tokens.
        skipper = SkipGenerator(plan("hermes", "required"), emit, NO_TOKENIZER, SkipGuard())
        assert generated_text(skipper, model) == text
        generated.append(model.generated)
    assert generated[2] - generated[1] == generated[1] - generated[0] < len(call) / 3


def test_a_quote_behind_a_backslash_does_not_end_a_string() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a \\" b \\\\", "days": 2}}\n</tool_call>'
    for size in (1, 2, 5):
        model = ScriptedModel(text, size, checks=True)
        assert generated_text(SkipGenerator(plan("hermes", "required"), emit, NO_TOKENIZER, SkipGuard()), model) == text


def test_the_step_cache_is_bounded_and_dropped_steps_are_computed_again() -> None:
    cache_ = ByteCache[tuple[SkipPlan, str], SkipStep](lambda _, step: step.size, max_bytes=20_000)
    skipper = SkipGenerator(plan("hermes", "required"), emit, NO_TOKENIZER, SkipGuard(), cache_)
    # Each text ends a hole at another position inside a string, so each has another path.
    for length in (*range(1, 40), 1):
        text = (
            '<tool_call>\n{"name": "get_weather", "arguments": '
            f'{{"city": "{"a" * length}\\" b", "days": 2}}}}\n</tool_call>'
        )
        assert generated_text(skipper, ScriptedModel(text, 2)) == text
        assert cache_.size <= cache_.max_bytes
    assert cache_.misses > 40
