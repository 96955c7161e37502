"""Law 8: skipping changes nothing. Whatever a model would have written comes out, to the letter, hole by hole.

The model here is one that has a rendered reply in mind and goes on with it wherever it is asked to.
"""

from __future__ import annotations

import asyncio
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import formats
from ferrule.engines.generator import Grammar, Piece, Writing
from ferrule.engines.text.skip import Held, Skipper
from ferrule.engines.text.skip_guard import SkipGuard
from ferrule.rules.cache import ByteCache
from ferrule.rules.lark import emit_lark
from ferrule.rules.rule import Rule
from ferrule.rules.skip.steps import Plan
from ferrule.wire.rule_builder import bind
from laws.minded import NO_TOKENIZER, PROMPT, Minded, Vocabulary
from laws.replies import TOOLS, replies
from laws.test_rule_admits import CHOICES, written_text

FORMATS = formats()


@cache
def plan(name: str, choice: str) -> Plan:
    return Plan(bind(FORMATS[name], TOOLS, CHOICES[choice]))


def emitted(rule: Rule) -> Grammar:
    return Grammar("lark", emit_lark(rule))


def written_by(skipper: Skipper, minded: Minded) -> str:
    async def gathered() -> str:
        found = ""
        async for piece in skipper.write(minded.write, Writing(prompt=PROMPT, max_tokens=100_000)):
            found += piece.text if isinstance(piece, Piece) else ""
        return found

    return asyncio.run(gathered())


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=4)
@given(data=st.data())
def test_what_comes_out_is_what_the_model_had_in_mind(name: str, choice: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    text = written_text(form, choice, data.draw(replies(form)))
    if text is None:
        return
    minded = Minded(text, data.draw(st.integers(1, 6)), checks=data.draw(st.booleans()))
    assert written_by(Skipper(plan(name, choice), emitted, NO_TOKENIZER, SkipGuard()), minded) == text


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=4)
@given(data=st.data())
def test_what_the_model_wrote_is_read_again_in_its_own_tokens(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    text = written_text(form, "required", data.draw(replies(form)))
    if text is None:
        return
    words = Vocabulary()
    minded = Minded(text, data.draw(st.integers(1, 6)), words=words)
    assert written_by(Skipper(plan(name, "required"), emitted, words.tokenizer, SkipGuard()), minded) == text
    for before, ids, after in zip(minded.read, minded.wrote, minded.read[1:], strict=False):
        # All but one that reached beyond what is forced, which is taken back.
        assert after[: len(before) + len(ids) - 1] == (*before, *ids[:-1])


def test_most_of_a_plain_call_is_not_generated() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
    minded = Minded(text, 1)
    one = Plan(bind(FORMATS["hermes"], TOOLS, CHOICES["required"], parallel=False))
    assert written_by(Skipper(one, emitted, NO_TOKENIZER, SkipGuard()), minded) == text
    assert minded.generated < len(text) / 3
    assert minded.requests == 4  # whether it reasons, which tool, which city, how many days


def test_a_quote_behind_a_backslash_does_not_end_a_string() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a \\" b \\\\", "days": 2}}\n</tool_call>'
    for size in (1, 2, 5):
        minded = Minded(text, size, checks=True)
        assert written_by(Skipper(plan("hermes", "required"), emitted, NO_TOKENIZER, SkipGuard()), minded) == text


def test_what_is_held_of_the_ways_through_a_rule_is_bounded_and_one_that_was_dropped_is_made_again() -> None:
    held = ByteCache[tuple[Plan, str], Held](lambda step: step.size, most_bytes=20_000)
    skipper = Skipper(plan("hermes", "required"), emitted, NO_TOKENIZER, SkipGuard(), held)
    # Each ends a hole at another place amid a string: another way each.
    for length in (*range(1, 40), 1):
        text = (
            '<tool_call>\n{"name": "get_weather", "arguments": '
            f'{{"city": "{"a" * length}\\" b", "days": 2}}}}\n</tool_call>'
        )
        assert written_by(skipper, Minded(text, 2)) == text
        assert held.size <= held.most_bytes
    assert held.misses > 40
