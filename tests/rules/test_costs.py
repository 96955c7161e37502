"""The costs of the specification, each beside another cost of the same run: schema, grammar, mask and parse.

The specification allows a tenth of a millisecond for a token, one for a schema or a parse, and five to ten for a
grammar. Machines differ, so a test compares these times with each other and with llguidance's own.
`scripts/bench-targets` measures them in seconds.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from string import ascii_letters

import llguidance
import numpy as np
import pytest
from llguidance.numpy import allocate_token_bitmask, apply_token_bitmask_inplace, fill_next_token_bitmask

from ferrule import ToolChoice
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.rules.lark import emit_lark
from ferrule.rules.logit_processor import LogitProcessor, RequestState
from ferrule.rules.matcher import compile_matcher
from ferrule.rules.rule import Rule, Value
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.parser import Parser
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind
from lab.rule_compiles import clear_tool_caches
from lab.rule_masks import VocabularyAdapter
from lab.rule_tools import sample_tools

LEAST_ROUNDS, MOST_ROUNDS = 6, 60
BYTES = [bytes([n]) for n in range(256)]
LETTERS = [letter.encode() for letter in ascii_letters]
# As many tokens as a small model has.
MANY = Vocabulary([*BYTES, *map(b"".join, product(LETTERS[:36], repeat=3)), b"<end>"], {}, 256 + 36**3)
CALL = {"invoice_0": "The quick brown fox, and more.", "sort_by": "created_at", "ids": ["one", "two"]}


@dataclass(frozen=True)
class Cold:
    """Work that begins with empty caches."""

    work: Callable[[], object]

    def __call__(self) -> None:
        self.work()


def seconds_of(work: Callable[[], object]) -> float:
    """The CPU time of it. Emptying the caches is not a part of it: that looks through every module of the process."""
    if isinstance(work, Cold):
        clear_tool_caches()
    started = time.process_time()
    work()
    return time.process_time() - started


def require_share(work: Callable[[], object], share: float, other: Callable[[], object]) -> None:
    """Require that work takes less than a share of the other's CPU time.

    Both are measured by turns, and the smallest time of each counts: whatever disturbs a measurement makes it longer.
    The garbage collector rests meanwhile, because its work depends on what other tests left behind. More rounds are
    measured until that is shown; work that is too slow stays so however often it is measured.
    """
    best, best_other = math.inf, math.inf
    gc.collect()
    gc.disable()
    try:
        for number in range(MOST_ROUNDS):
            best, best_other = min(best, seconds_of(work)), min(best_other, seconds_of(other))
            if number >= LEAST_ROUNDS and best < share * best_other:
                return
    finally:
        gc.enable()
    raise AssertionError(f"it takes {best / best_other:.2f} of the other's time, and may take {share:.2f}")


# Made once: what a tool's definition costs is not what its grammar costs.
tools_of = cache(sample_tools)


def grammar(name: str, count: int) -> str:
    return emit_lark(bind(get_format(name), tools_of(count)))


def compile_alone(lark: str) -> None:
    compile_matcher(MANY, lark)


@pytest.mark.parametrize("name, times", [("hermes", 0.5), ("llama3", 0.5), ("qwen_xml", 2), ("pythonic", 1.6)])
def test_writing_a_grammar_takes_a_share_of_what_llguidance_takes_to_compile_it(name: str, times: float) -> None:
    lark = grammar(name, 30)
    compile_alone(lark)
    require_share(Cold(lambda: grammar(name, 30)), times, lambda: compile_alone(lark))


def test_a_schema_takes_a_small_share_of_what_llguidance_takes_to_compile_it() -> None:
    rules = [Rule(Value(tool.parameters, tool.parameters)) for tool in sample_tools(10)]
    larks = [emit_lark(rule) for rule in rules]

    require_share(Cold(lambda: list(map(emit_lark, rules))), 1 / 5, lambda: list(map(compile_alone, larks)))


@pytest.mark.parametrize("name", ["hermes", "qwen_xml"])
def test_a_tool_costs_the_same_in_a_set_of_twenty_and_of_two_hundred(name: str) -> None:
    grammar(name, 200)
    require_share(Cold(lambda: grammar(name, 200)), 10 * 1.5, Cold(lambda: grammar(name, 20)))


@pytest.mark.parametrize("name", ["hermes", "qwen_xml"])
def test_a_set_with_one_tool_more_costs_less_than_a_new_set(name: str) -> None:
    tools, format = sample_tools(101), get_format(name)
    first_set = Cold(lambda: emit_lark(bind(format, tools[:100])))
    # By turns, the set of all tools always follows a cold set of all but one.
    seconds_of(first_set)
    require_share(lambda: emit_lark(bind(format, tools)), 0.8, first_set)


@pytest.mark.parametrize("name", ["hermes", "qwen_xml"])
def test_a_call_is_parsed_in_a_fifth_of_what_a_grammar_takes(name: str) -> None:
    format, tools = get_format(name), sample_tools(10)
    text = render(format, Reply.of(ToolCall.of(tools[0].name, CALL)), tools)

    def parse() -> None:
        parser = Parser(format, tools)
        for at in range(0, len(text), 4):
            parser.feed(text[at : at + 4])
        parser.close()

    parse()
    require_share(parse, 1 / 5, Cold(lambda: compile_alone(grammar(name, 10))))


@cache
def processor() -> LogitProcessor:
    return LogitProcessor(MANY, bind(get_format("hermes"), sample_tools(10), ToolChoice.required()))


def tokens_of_a_call() -> list[int]:
    tools, format = sample_tools(10), get_format("hermes")
    return MANY.encode_greedily(render(format, Reply.of(ToolCall.of(tools[0].name, CALL)), tools).encode())


def mask_all(state: RequestState, tokens: Sequence[int], logits: np.ndarray) -> None:
    for token in tokens:
        state.mask(logits)
        assert state.advance(token)


def test_a_mask_takes_a_fiftieth_of_what_a_grammar_takes() -> None:
    tokens, logits = tokens_of_a_call(), np.zeros(len(MANY), np.float32)
    mask_all(processor().start(), tokens, logits)
    require_share(
        lambda: mask_all(processor().start(), tokens, logits),
        len(tokens) / 50,
        Cold(lambda: compile_alone(grammar("hermes", 10))),
    )


def test_a_mask_costs_less_than_llguidances_own_way_to_apply_one() -> None:
    tokens, logits = tokens_of_a_call(), np.zeros(len(MANY), np.float32)
    lark = emit_lark(bind(get_format("hermes"), sample_tools(10), ToolChoice.required()))
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(VocabularyAdapter(MANY)))
    start = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
    bits = allocate_token_bitmask(1, len(MANY))

    def theirs() -> None:
        matcher = start.deep_copy()
        for token in tokens:
            fill_next_token_bitmask(matcher, bits)
            apply_token_bitmask_inplace(logits, bits)
            assert matcher.consume_token(token)

    require_share(lambda: mask_all(processor().start(), tokens, logits), 1, theirs)
