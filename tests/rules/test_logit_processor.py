"""Masks apply in place and to batches, with a state per request that can be copied and rolled back."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ferrule import FormatError, ToolChoice, ToolDefinition
from ferrule.formats import get_format
from ferrule.rules.logit_processor import HuggingFaceProcessor, LogitProcessor, mask_batch
from ferrule.rules.matcher import TokenMatcher, compile_matcher
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.rule_builder import bind

BYTES = Vocabulary([*(bytes([n]) for n in range(256)), b"<call>", b"</end>"], {"<tool_call>": 256}, end=257)
SIZE = len(BYTES)
PING = ToolDefinition("ping", "", {"type": "object", "properties": {}, "additionalProperties": False})


def processor() -> LogitProcessor:
    return LogitProcessor(BYTES, bind(get_format("hermes"), [PING], ToolChoice.required()))


def test_tokens_that_cannot_come_next_are_masked_in_place() -> None:
    logits = np.zeros(300)
    processor().start().mask(logits)
    assert set(np.flatnonzero(np.isfinite(logits))) == {256, ord("<")}


def test_each_row_of_a_batch_is_masked_by_its_own_state() -> None:
    logit_processor = processor()
    first, second = logit_processor.start(), logit_processor.start()
    assert second.advance(256)
    logits = np.zeros((2, len(BYTES)))
    mask_batch([first, second], logits)
    assert np.isfinite(logits[0, 256])
    assert not np.isfinite(logits[1, 256])
    assert np.flatnonzero(np.isfinite(logits[1])).tolist() == [ord("\n")]


def test_forced_tokens_spell_the_envelope() -> None:
    state = processor().start()
    assert state.advance(256)
    assert bytes(state.forced_tokens()).startswith(b'\n{"name": "ping", "arguments": {}}\n</tool_call>')


def test_a_state_can_be_copied_and_rolled_back() -> None:
    state = processor().start()
    before = state.allowed_tokens()
    twin = state.copy()
    assert state.advance(256)
    assert not (state.allowed_tokens() == before).all()
    state.rollback(1)
    assert (state.allowed_tokens() == before).all()
    assert (twin.allowed_tokens() == before).all()


def test_a_token_that_is_not_allowed_is_refused() -> None:
    assert not processor().start().advance(ord("x"))


def test_hugging_face_calls_it_with_the_ids_so_far() -> None:
    hugging_face = HuggingFaceProcessor(processor())
    prompt = np.array([[1, 2, 3]])
    scores = hugging_face(prompt, np.zeros((1, len(BYTES))))
    assert np.isfinite(scores[0, 256])
    scores = hugging_face(np.array([[1, 2, 3, 256]]), np.zeros((1, len(BYTES))))
    assert np.flatnonzero(np.isfinite(scores[0])).tolist() == [ord("\n")]


def test_a_grammar_that_does_not_compile_is_an_error_with_a_code() -> None:
    with pytest.raises(FormatError, match="does not compile") as refusal:
        compile_matcher(BYTES, "start: %nonsense")
    assert refusal.value.code == "bad_grammar"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(SIZE,), (SIZE - 3,), (SIZE + 40,), (2, SIZE)], ids=str)
def test_a_mask_keeps_the_logits_of_allowed_tokens_and_no_others(shape: tuple[int, ...], dtype: str) -> None:
    state = processor().start()
    allowed = state.allowed_tokens()
    logits = np.linspace(-9, 9, int(np.prod(shape))).reshape(shape).astype(dtype)
    logits[..., 0], logits[..., 1] = np.inf, -np.inf
    expected = logits.copy()
    size = min(SIZE, shape[-1])
    expected[..., :size][..., ~allowed[:size]] = -np.inf
    expected[..., size:] = -np.inf
    state.mask(logits)
    assert logits.dtype == dtype
    assert (logits == expected).all()


ASCII = [bytes([n]) for n in range(128)]
PAIRS = Vocabulary([*ASCII, *map(b"".join, product(ASCII, repeat=2))], {}, end=0)
# From one allowed token to all of them, so that each way of applying a mask is taken.
TEXTS = [
    r"/ab/",
    r"/[a-f]{2}/",
    r"/[a-z][0-9]/",
    r"/[\x01-\x7f][0-9a-z]/",
    r"/[\x01-\x7f]{2}/",
    r"/(?s:.)*/",
    r"/[^q]*/",
]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_mask_is_the_same_however_many_tokens_it_allows(text: str, dtype: str) -> None:
    matcher = compile_matcher(PAIRS, f"start: {text}")
    allowed = matcher.allowed_tokens()
    for shape in [(len(PAIRS),), (len(PAIRS),), (2, len(PAIRS) + 5), (len(PAIRS) // 2,)]:
        logits = np.linspace(-9, 9, int(np.prod(shape))).reshape(shape).astype(dtype)
        expected = np.full_like(logits, -np.inf)
        size = min(shape[-1], len(PAIRS))
        expected[..., :size][..., allowed[:size]] = logits[..., :size][..., allowed[:size]]
        matcher.mask(logits)
        assert (logits == expected).all()


@pytest.mark.parametrize("text", TEXTS)
def test_a_logit_that_is_not_a_number_is_masked_like_any_other(text: str) -> None:
    matcher = compile_matcher(PAIRS, f"start: {text}")
    logits = np.full(len(PAIRS), np.nan, np.float32)
    matcher.mask(logits)
    assert (np.isnan(logits) == matcher.allowed_tokens()).all()
    assert (logits[~np.isnan(logits)] == -np.inf).all()


def test_a_mask_follows_its_state_when_tokens_are_taken_and_taken_back() -> None:
    matcher = compile_matcher(PAIRS, "start: /[a-f]{2}/ /(?s:.){3}/ /xy/")
    masks: list[list[int]] = []
    for token in (*b"ab", *b"???", *b"x"):
        masks.append(allowed_by_mask(matcher))
        assert masks[-1] == np.flatnonzero(matcher.allowed_tokens()).tolist()
        assert matcher.take(token)
    for mask in reversed(masks):
        matcher.rollback(1)
        assert allowed_by_mask(matcher) == mask


def allowed_by_mask(matcher: TokenMatcher) -> list[int]:
    logits = np.zeros(len(PAIRS), np.float32)
    matcher.mask(logits)
    return np.flatnonzero(np.isfinite(logits)).tolist()
