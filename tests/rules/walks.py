"""Random walks under the real mask: tokens chosen at random among those that the rule allows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

import llguidance
import numpy as np
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from numpy.typing import NDArray

from rules.vocabularies import Vocabulary

# Characters that end strings and values. Without a preference for them, a walk never leaves its first string.
_CLOSERS = tuple("\"}])>\n<|',")


@dataclass(frozen=True, slots=True)
class WalkResult:
    text: str
    is_finished: bool
    problem: str = ""


def walk(
    vocabulary: Vocabulary, matcher: llguidance.LLMatcher, rng: random.Random, max_tokens: int = 400
) -> WalkResult:
    """Choose allowed tokens at random until the rule is satisfied and a random draw ends the walk."""
    matcher = matcher.deep_copy()
    if matcher.is_error():
        return WalkResult("", False, matcher.get_error())
    closers = closers_of(vocabulary)
    mask = allocate_token_bitmask(1, len(vocabulary.tokens))
    ids: list[int] = []
    while len(ids) < max_tokens and not matcher.is_stopped():
        fill_next_token_bitmask(matcher, mask)
        bits = np.unpackbits(mask[0].view(np.uint8), bitorder="little")[: len(vocabulary.tokens)]
        bits[vocabulary.eos_token_id] = 0
        count = int(bits.sum())
        if matcher.is_accepting() and (rng.random() < 0.4 or not count):
            return WalkResult(vocabulary.text_of(ids), True)
        if not count:
            return WalkResult(vocabulary.text_of(ids), False, "nothing is allowed and nothing is finished")
        closing = closers[bits[closers] == 1] if count > 40 and rng.random() < 0.4 else closers[:0]
        chosen = int(rng.choice(closing if len(closing) else np.flatnonzero(bits)))
        if not matcher.consume_token(chosen):
            return WalkResult(vocabulary.text_of(ids), False, matcher.get_error())
        ids.append(chosen)
    return WalkResult(vocabulary.text_of(ids), matcher.is_accepting())


@cache
def closers_of(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """The tokens that consist of one closing character."""
    return np.array([n for n, token in enumerate(vocabulary.plain) if token.decode("latin1") in _CLOSERS])
