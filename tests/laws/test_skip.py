"""Law 8: skipping does not change the result: the output is exactly what the model would have written.

The model is scripted: it has a rendered reply and continues it from wherever the prompt ends.
"""

from __future__ import annotations

import asyncio
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.engines.generator import CompletionRequest, Grammar, Piece
from ferrule.engines.text.skip import SkipGenerator, SkipStep
from ferrule.engines.text.skip_guard import SkipGuard
from ferrule.formats import all_formats
from ferrule.rules.cache import ByteCache
from ferrule.rules.lark import emit_lark
from ferrule.rules.rule import Rule
from ferrule.rules.skip.steps import SkipPlan
from ferrule.wire.rule_builder import bind
from laws.minded import NO_TOKENIZER, PROMPT, ScriptedModel, Vocabulary
from laws.replies import TOOLS, replies
from laws.test_rule_admits import CHOICES, writable_text
from sampling import sampled

FORMATS = all_formats()


@cache
def plan(name: str, choice: str) -> SkipPlan:
    return SkipPlan(bind(FORMATS[name], TOOLS, CHOICES[choice]))


def emit(rule: Rule) -> Grammar:
    return Grammar("lark", emit_lark(rule))


def generated_text(skipper: SkipGenerator, model: ScriptedModel) -> str:
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
    words = Vocabulary()
    model = ScriptedModel(text, data.draw(st.integers(1, 6)), words=words)
    assert generated_text(SkipGenerator(plan(name, "required"), emit, words.tokenizer, SkipGuard()), model) == text
    for before, ids, after in zip(model.read, model.wrote, model.read[1:], strict=False):
        # All tokens but the last, which is dropped if it reached beyond the forced text.
        assert after[: len(before) + len(ids) - 1] == (*before, *ids[:-1])


def test_most_of_a_plain_call_is_not_generated() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
    model = ScriptedModel(text, 1)
    one = SkipPlan(bind(FORMATS["hermes"], TOOLS, CHOICES["required"], parallel=False))
    assert generated_text(SkipGenerator(one, emit, NO_TOKENIZER, SkipGuard()), model) == text
    assert model.generated < len(text) / 3
    assert model.requests == 4  # whether it reasons, which tool, which city, how many days


def test_a_quote_behind_a_backslash_does_not_end_a_string() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a \\" b \\\\", "days": 2}}\n</tool_call>'
    for size in (1, 2, 5):
        model = ScriptedModel(text, size, checks=True)
        assert generated_text(SkipGenerator(plan("hermes", "required"), emit, NO_TOKENIZER, SkipGuard()), model) == text


def test_the_step_cache_is_bounded_and_dropped_steps_are_computed_again() -> None:
    cache_ = ByteCache[tuple[SkipPlan, str], SkipStep](lambda step: step.size, max_bytes=20_000)
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
