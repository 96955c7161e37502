"""Random walks under the real mask: a model that writes nonsense wherever it is free to."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

import llguidance
import numpy as np
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from numpy.typing import NDArray

from rules.vocabularies import Vocabulary

# What ends strings and values; without a pull towards them a walk stays in its first string for ever.
_CLOSERS = tuple("\"}])>\n<|',")


@dataclass(frozen=True, slots=True)
class Walked:
    text: str
    is_finished: bool
    problem: str = ""


def walk(vocabulary: Vocabulary, matcher: llguidance.LLMatcher, luck: random.Random, most: int = 400) -> Walked:
    """Choose an allowed token again and again until the rule is satisfied and the dice say so."""
    matcher = matcher.deep_copy()
    if matcher.is_error():
        return Walked("", False, matcher.get_error())
    closers = closers_of(vocabulary)
    mask = allocate_token_bitmask(1, len(vocabulary.tokens))
    ids: list[int] = []
    while len(ids) < most and not matcher.is_stopped():
        fill_next_token_bitmask(matcher, mask)
        bits = np.unpackbits(mask[0].view(np.uint8), bitorder="little")[: len(vocabulary.tokens)]
        bits[vocabulary.eos_token_id] = 0
        count = int(bits.sum())
        if matcher.is_accepting() and (luck.random() < 0.4 or not count):
            return Walked(vocabulary.text_of(ids), True)
        if not count:
            return Walked(vocabulary.text_of(ids), False, "nothing is allowed and nothing is finished")
        pulled = closers[bits[closers] == 1] if count > 40 and luck.random() < 0.4 else closers[:0]
        chosen = int(luck.choice(pulled if len(pulled) else np.flatnonzero(bits)))
        if not matcher.consume_token(chosen):
            return Walked(vocabulary.text_of(ids), False, matcher.get_error())
        ids.append(chosen)
    return Walked(vocabulary.text_of(ids), matcher.is_accepting())


@cache
def closers_of(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """The tokens that are one closing character and nothing else."""
    return np.array([n for n, token in enumerate(vocabulary.plain) if token.decode("latin1") in _CLOSERS])
