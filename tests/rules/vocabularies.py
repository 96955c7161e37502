"""Vocabularies for random walks: single bytes, and the real ones of Llama 3, Mistral and SmolLM2 if downloaded."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import llguidance

from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of
from ferrule.formats import all_formats

CACHE = Path(__file__).parents[2] / ".cache"
SITE = CACHE / "venvs" / "oracles" / "lib"


class Vocabulary:
    """The tokens as bytes, followed by the special ones: what llguidance needs from a tokenizer."""

    def __init__(self, tokens: Sequence[bytes], specials: Sequence[str]) -> None:
        self.plain = list(tokens)
        self.specials = {text: len(self.plain) + number for number, text in enumerate(specials)}
        self.tokens = [*self.plain, *(b"\xff" + text.encode() for text in specials), b"\xff<|end|>"]
        self.eos_token_id = len(self.tokens) - 1
        self.bos_token_id = None
        self.special_token_ids = [*self.specials.values(), self.eos_token_id]
        self._ids = {token: number for number, token in enumerate(self.plain)}
        self._longest = max(map(len, self.plain))

    def __call__(self, text: bytes | str) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        ids: list[int] = []
        at = 0
        while at < len(data):
            size = next(n for n in range(min(self._longest, len(data) - at), 0, -1) if data[at : at + n] in self._ids)
            ids.append(self._ids[data[at : at + size]])
            at += size
        return ids

    def text_of(self, ids: Sequence[int]) -> str:
        names = {number: text for text, number in self.specials.items()}
        pieces = (names[n].encode() if n in names else self.tokens[n] for n in ids if n != self.eos_token_id)
        return b"".join(pieces).decode("utf-8", "replace")


@cache
def _tokens(name: str) -> tuple[bytes, ...]:
    match name:
        case "bytes":
            return tuple(bytes([number]) for number in range(256))
        case "llama3":
            (model,) = SITE.glob("*/site-packages/llama_models/llama3/tokenizer.model")
            lines = model.read_bytes().splitlines()
            return tuple(base64.b64decode(line.split()[0]) for line in lines if line)
        case "tekken":
            (model,) = SITE.glob("*/site-packages/mistral_common/data/tekken_240911.json")
            ranked = json.loads(model.read_text(encoding="utf-8"))["vocab"]
            return tuple(base64.b64decode(entry["token_bytes"]) for entry in ranked[:130_072])
        case "smollm2":
            (model,) = (CACHE / "models").glob("SmolLM2*.gguf")
            return tuple(vocabulary_of(read_metadata(model)).tokens)
        case _:
            raise ValueError(name)


@cache
def tokenizer(name: str) -> tuple[Vocabulary, llguidance.LLTokenizer]:
    """A vocabulary in which the tokens of every format are special tokens."""
    specials = sorted({token for form in all_formats().values() for token in form.tokens})
    vocabulary = Vocabulary(_tokens(name), specials)
    return vocabulary, llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
