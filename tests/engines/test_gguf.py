"""The head of a model file: read as it is, and never trusted to be what it says."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import FormatError
from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def strings(values: list[str]) -> bytes:
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def head(pairs: dict[str, bytes]) -> bytes:
    body = b"".join(text(key) + value for key, value in pairs.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body


PAIRS = {
    "tokenizer.chat_template": struct.pack("<I", 8) + text("{{ messages }}"),
    "tokenizer.ggml.tokens": strings(["<|im_end|>", "a", "Ġb", "Ċ"]),
    "tokenizer.ggml.token_type": struct.pack("<IIQ4i", 9, 5, 4, 3, 1, 1, 1),
    "tokenizer.ggml.eos_token_id": struct.pack("<II", 4, 0),
}


def test_a_template_and_a_vocabulary_are_read(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(head(PAIRS))
    metadata = read_metadata(file)
    assert metadata["tokenizer.chat_template"] == "{{ messages }}"
    words = vocabulary_of(metadata)
    assert list(words.tokens)[1:] == [b"a", b" b", b"\n"]
    assert words.specials == {"<|im_end|>": 0}
    assert words.text([1, 2, 3, 0]) == "a b\n"


@given(junk=st.binary(max_size=80), cut=st.integers(0, 200))
def test_a_damaged_head_is_refused_with_a_code_and_nothing_worse(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, cut: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "damaged.gguf"
    file.write_bytes(head(PAIRS)[:cut] + junk)
    code = ""
    try:
        read_metadata(file)
    except FormatError as refusal:
        code = refusal.code
    assert code in ("", "bad_model_file")
