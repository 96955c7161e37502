"""Reading the head of a model file, also a damaged one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import FormatError
from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of


def string_bytes(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def array_bytes(values: list[str]) -> bytes:
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(string_bytes, values))


def file_bytes(pairs: dict[str, bytes]) -> bytes:
    body = b"".join(string_bytes(key) + value for key, value in pairs.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body


PAIRS = {
    "tokenizer.chat_template": struct.pack("<I", 8) + string_bytes("{{ messages }}"),
    "tokenizer.ggml.tokens": array_bytes(["<|im_end|>", "a", "Ġb", "Ċ"]),
    "tokenizer.ggml.token_type": struct.pack("<IIQ4i", 9, 5, 4, 3, 1, 1, 1),
    "tokenizer.ggml.eos_token_id": struct.pack("<II", 4, 0),
}


def test_a_template_and_a_vocabulary_are_read(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(file_bytes(PAIRS))
    metadata = read_metadata(file)
    assert metadata["tokenizer.chat_template"] == "{{ messages }}"
    vocabulary = vocabulary_of(metadata)
    assert list(vocabulary.tokens)[1:] == [b"a", b" b", b"\n"]
    assert vocabulary.specials == {"<|im_end|>": 0}
    assert vocabulary.decode([1, 2, 3, 0]) == "a b\n"


@given(garbage=st.binary(max_size=80), cut=st.integers(0, 200))
def test_a_damaged_head_is_refused_with_a_code_and_nothing_worse(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, cut: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "damaged.gguf"
    file.write_bytes(file_bytes(PAIRS)[:cut] + garbage)
    code = ""
    try:
        read_metadata(file)
    except FormatError as refusal:
        code = refusal.code
    assert code in ("", "bad_model_file")
