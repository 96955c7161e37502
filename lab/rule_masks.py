"""Measure what a mask costs per token, over walks that choose randomly among the allowed tokens. Wall time of the mask.

Every walk is then repeated token by token: time that is saved the second time was spent on states of the automaton that
no walk had reached before. A mask that the same request has just computed for the same state is not computed again.
"""

import base64
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import llguidance
import numpy
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from numpy.typing import NDArray

from ferrule.core.request import ToolChoice
from ferrule.errors import FerruleError, FormatError
from ferrule.rules.lark import emit_lark
from ferrule.rules.rule import Prose, Rule
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.registry import all_formats, get_format
from ferrule.wire.rule_builder import bind
from lab.paths import CACHE
from lab.rule_tools import sample_tools

Advance = Callable[[str], None]

FORMATS: Final = ("hermes", "qwen_xml", "llama3", "mistral_v13", "pythonic", "gemma4")
STEPS: Final = len(FORMATS)
TOOLS: Final = 10
MASKS: Final = 2_500
_LONGEST_WALK: Final = 100
_ENDS: Final = 0.4
# Texts that end strings and values. Without a bias towards them a walk would never leave its first string.
_CLOSERS: Final = frozenset(b"\"}])>\n<|',")
_PULL: Final = 0.4
_FEW: Final = 40
# A mask that takes longer (seconds) is slow: the target for p99.
SLOW: Final = 600e-6
# A state that allows more than this part of the vocabulary is free text.
_FREE: Final = 0.9


class VocabularyMissingError(FerruleError):
    """No vocabulary is available."""

    code = "bench_vocabulary_missing"


def llama3_model() -> Path:
    """The path of Llama 3's vocabulary, if the oracles are installed."""
    paths = (CACHE / "venvs" / "oracles" / "lib").glob("*/site-packages/llama_models/llama3/tokenizer.model")
    for path in paths:
        return path
    raise VocabularyMissingError(
        "the vocabulary of Llama 3 is not installed", hint="run scripts/setup-oracles, or pass --model"
    )


def read_vocabulary(model: Path, most: int | None = None) -> Vocabulary:
    """Read a vocabulary with one base64 token per line, and append the special tokens of all formats."""
    plain = [base64.b64decode(line.split()[0]) for line in model.read_bytes().splitlines()[:most]]
    specials = sorted({token for format in all_formats().values() for token in format.tokens})
    numbered = {text: len(plain) + number for number, text in enumerate(specials)}
    return Vocabulary([*plain, *(text.encode() for text in specials), b"<|end|>"], numbered, len(plain) + len(specials))


def measure(model: Path, advance: Advance) -> list[dict[str, Any]]:
    vocabulary = read_vocabulary(model)
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(VocabularyAdapter(vocabulary)))
    rows: list[dict[str, Any]] = []
    for name in FORMATS:
        advance(name)
        rows.append({"format": name, **_walks(name, vocabulary, tokenizer)})
    return rows


def free_text_seconds(model: Path) -> dict[str, float]:
    """The fastest of a few first masks in free text: where any text is allowed, and where a marker is excluded."""
    vocabulary = read_vocabulary(model)
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(VocabularyAdapter(vocabulary)))
    mask = allocate_token_bitmask(1, len(vocabulary))
    seconds_by_name: dict[str, float] = {}
    for name, excludes in (("plain", ()), ("excluding", ("<tool_call>",))):
        lark = emit_lark(Rule(Prose(excludes)))
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
        matcher.try_consume_tokens(vocabulary.encode_greedily(b"hello"))
        seconds_by_name[name] = min(_mask_seconds(matcher.deep_copy(), mask) for _ in range(20))
    return seconds_by_name


def _walks(name: str, vocabulary: Vocabulary, tokenizer: llguidance.LLTokenizer) -> dict[str, Any]:
    lark = emit_lark(bind(get_format(name), sample_tools(TOOLS), ToolChoice.required()), vocabulary.specials)
    start = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
    if start.is_error():
        raise FormatError(f"the grammar of {name} does not compile: {start.get_error():.300}", code="bad_grammar")
    luck = random.Random(name)
    closers = numpy.array([n for n, token in enumerate(vocabulary.tokens) if len(token) == 1 and token[0] in _CLOSERS])
    mask = allocate_token_bitmask(1, len(vocabulary))
    all_steps: list[MaskStep] = []
    walks = 0
    while len(all_steps) < MASKS:
        ids, steps = _walk(start.deep_copy(), vocabulary, mask, closers, luck)
        again = _same_walk(start.deep_copy(), ids, len(steps), mask)
        all_steps += [replace(step, again=seconds) for step, seconds in zip(steps, again, strict=True)]
        walks += 1
    slow = [step for step in all_steps if step.seconds > SLOW]
    free = [step.seconds for step in all_steps if step.is_free]
    return {
        **{"walks": walks, "masks": len(all_steps), "first": figures([step.seconds for step in all_steps])},
        **{"again": figures([step.again for step in all_steps]), "slow": len(slow)},
        **{"free": len(free), "free_p50": figures(free)["p50"] if free else None},
        **{"slow_free": sum(step.is_free for step in slow), "slow_again": sum(step.again > SLOW for step in slow)},
    }


@dataclass(frozen=True, slots=True)
class MaskStep:
    """One mask: its seconds, whether nearly everything was allowed, and its seconds when the walk was repeated."""

    seconds: float
    is_free: bool
    again: float = 0.0


def _walk(
    matcher: llguidance.LLMatcher,
    vocabulary: Vocabulary,
    mask: NDArray[numpy.int32],
    closers: NDArray[Any],
    luck: random.Random,
) -> tuple[list[int], list[MaskStep]]:
    ids: list[int] = []
    steps: list[MaskStep] = []
    while len(ids) < _LONGEST_WALK and not matcher.is_stopped():
        seconds = _mask_seconds(matcher, mask)
        bits = numpy.unpackbits(mask[0].view(numpy.uint8), bitorder="little")[: len(vocabulary)]
        bits[vocabulary.end] = 0
        allowed = numpy.flatnonzero(bits)
        steps.append(MaskStep(seconds, len(allowed) > _FREE * len(vocabulary)))
        if not len(allowed) or (matcher.is_accepting() and luck.random() < _ENDS):
            break
        pulled = closers[bits[closers] == 1] if len(allowed) > _FEW and luck.random() < _PULL else closers[:0]
        token = int(luck.choice(pulled if len(pulled) else allowed))
        if not matcher.consume_token(token):
            raise FormatError(f"an allowed token was refused: {matcher.get_error():.300}", code="bad_grammar")
        ids.append(token)
    return ids, steps


def _same_walk(
    matcher: llguidance.LLMatcher, ids: Sequence[int], masks: int, mask: NDArray[numpy.int32]
) -> list[float]:
    spent: list[float] = []
    for number in range(masks):
        spent.append(_mask_seconds(matcher, mask))
        if number < len(ids):
            matcher.consume_token(ids[number])
    return spent


def _mask_seconds(matcher: llguidance.LLMatcher, mask: NDArray[numpy.int32]) -> float:
    started = time.perf_counter()
    fill_next_token_bitmask(matcher, mask)
    return time.perf_counter() - started


def figures(seconds: Sequence[float]) -> dict[str, float]:
    """The median, the 99th percentile and the maximum."""
    ordered = sorted(seconds)
    at = {"p50": (len(ordered) - 1) // 2, "p99": -(-99 * len(ordered) // 100) - 1, "max": len(ordered) - 1}
    return {name: ordered[place] for name, place in at.items()}


class VocabularyAdapter:
    """A vocabulary in the form that llguidance expects; special tokens begin with a byte that no text contains."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.special_token_ids = [*vocabulary.specials.values(), vocabulary.end]
        special = set(self.special_token_ids)
        self.tokens = [b"\xff" + token if n in special else token for n, token in enumerate(vocabulary.tokens)]
        self.eos_token_id = vocabulary.end
        self.bos_token_id = None
        self._greedy = vocabulary.encode_greedily

    def __call__(self, text: bytes | str) -> list[int]:
        return self._greedy(text.encode() if isinstance(text, str) else text)
