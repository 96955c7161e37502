"""GGUF: reads the metadata at the head of a model file: chat template, vocabulary, special tokens.

Reads only the head, never the weights. Any damaged or malicious file raises `FormatError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, cast

from ferrule.engines.checkpoint.special_tokens import is_added_token
from ferrule.errors import FormatError
from ferrule.rules.vocabulary import Vocabulary

_MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# Real heads have a few hundred keys and vocabularies of at most a few million tokens.
_MAX_KEYS, _MAX_ITEMS, _MAX_BYTES = 100_000, 8_000_000, 64 * 1024 * 1024
_CONTROL_TOKEN, _ADDED_TOKEN = 3, 4
_TOKENIZER = "tokenizer."


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the keys and values at the head of a GGUF file."""
    try:
        with path.open("rb") as file:
            _require_magic(file, path.name)
            return dict(_entries(file))
    except (struct.error, UnicodeDecodeError) as damage:
        raise FormatError(f"{path.name} is damaged or cut off", code="bad_model_file") from damage


def read_shape(path: Path) -> dict[str, Any]:
    """Read the keys and values before the tokenizer's, which take most of the time; all if they have no size."""
    try:
        with path.open("rb") as file:
            _require_magic(file, path.name)
            shape = dict(takewhile(lambda entry: not entry[0].startswith(_TOKENIZER), _entries(file)))
    except (struct.error, UnicodeDecodeError) as damage:
        raise FormatError(f"{path.name} is damaged or cut off", code="bad_model_file") from damage
    has_size = f"{shape.get('general.architecture')}.block_count" in shape
    return shape if has_size else read_metadata(path)


def require_gguf(path: Path) -> None:
    """Raise `FormatError` if the file is not a GGUF file. Reads only its first bytes."""
    with path.open("rb") as file:
        _require_magic(file, path.name)


def vocabulary_of(metadata: Mapping[str, Any]) -> Vocabulary:
    """Make the vocabulary of a byte-level model, as most are: each character of a token stands for one byte."""
    tokens = cast("list[str]", metadata["tokenizer.ggml.tokens"])
    token_types = cast("list[int]", metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens))
    specials = {token: number for number, token in enumerate(tokens) if token_types[number] == _CONTROL_TOKEN}
    byte_of = {char: byte for byte, char in _byte_characters().items()}
    special_ids = set(specials.values())
    token_bytes = [
        token.encode() if number in special_ids else bytes(byte_of.get(char, 0x3F) for char in token)
        for number, token in enumerate(tokens)
    ]
    return Vocabulary(token_bytes, specials, end=int(metadata["tokenizer.ggml.eos_token_id"]))


def special_texts_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The texts that the model's tokenizer reads as special tokens. Added tokens may also be plain spaces."""
    tokens = cast("list[str]", metadata.get("tokenizer.ggml.tokens") or [])
    kinds = zip(tokens, cast("list[int]", metadata.get("tokenizer.ggml.token_type") or []), strict=False)
    return frozenset(
        text for text, kind in kinds if kind == _CONTROL_TOKEN or (kind == _ADDED_TOKEN and is_added_token(text))
    )


def _require_magic(file: BinaryIO, name: str) -> None:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise FormatError(f"{name} is not a GGUF file", code="bad_model_file", hint="Pass the .gguf file of a model.")


def _entries(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    (version,) = _unpack(file, "I")
    if version not in (2, 3):
        raise FormatError(f"GGUF version {version} is not supported", code="bad_model_file")
    _tensors, count = _unpack(file, "QQ")
    _check_count(count, _MAX_KEYS)
    for _ in range(count):
        name = _string(file)
        yield name, _value(file, *_unpack(file, "I"))


def _value(file: BinaryIO, kind: int) -> Any:
    if kind in _SCALARS:
        return _unpack(file, _SCALARS[kind])[0]
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        raise FormatError(f"unknown GGUF value type {kind}", code="bad_model_file")
    inner, count = _unpack(file, "IQ")
    _check_count(count, _MAX_ITEMS)
    if inner in _SCALARS:
        return list(_unpack(file, f"{count}{_SCALARS[inner]}"))
    read: Callable[[], Any] = (lambda: _string(file)) if inner == _STRING else (lambda: _value(file, inner))
    return [read() for _ in range(count)]


def _string(file: BinaryIO) -> str:
    (size,) = _unpack(file, "Q")
    _check_count(size, _MAX_BYTES)
    data = file.read(size)
    if len(data) < size:
        raise struct.error("cut off")
    return data.decode()


def _unpack(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}")))


def _check_count(count: int, limit: int) -> None:
    if count > limit:
        raise FormatError(
            f"the GGUF head declares {count} items, more than the limit of {limit}", code="bad_model_file"
        )


def _byte_characters() -> dict[int, str]:
    """The printable character that byte-level vocabularies write for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {byte: chr(0x100 + place) for place, byte in enumerate(others)}
    return {**{byte: chr(byte) for byte in printable}, **shifted}
