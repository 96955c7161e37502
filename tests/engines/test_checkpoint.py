"""Reading a model's chat template from every place where models store it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.test_gguf import array_bytes, file_bytes, string_bytes
from ferrule import FormatError
from ferrule.engines.checkpoint.checkpoint import Checkpoint, read_checkpoint

TEMPLATES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(lambda t: t.strip())


def string_value(value: str) -> bytes:
    return struct.pack("<I", 8) + string_bytes(value)


def write_gguf(path: Path, **pairs: bytes) -> Path:
    path.write_bytes(file_bytes({key.replace("__", "."): value for key, value in pairs.items()}))
    return path


def write_folder(path: Path, settings: dict[str, Any] | None = None, **files: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for old in path.rglob("*.j*"):
        old.unlink()
    if settings is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    for name, content in files.items():
        (path / name.replace("__", ".")).write_bytes(content.encode())
    return path


@given(source=TEMPLATES)
def test_a_template_is_read_character_by_character_from_all_three(
    tmp_path_factory: pytest.TempPathFactory, source: str
) -> None:
    base = tmp_path_factory.getbasetemp()
    own = base / "own.jinja"
    own.write_bytes(source.encode())
    # A byte order mark at the beginning of a text file belongs to the encoding.
    assert read_checkpoint(own).template == source.removeprefix("\ufeff")
    assert (
        read_checkpoint(write_gguf(base / "m.gguf", tokenizer__chat_template=string_value(source))).template == source
    )
    assert read_checkpoint(write_folder(base / "model", {"chat_template": source})).template == source


def test_a_gguf_file_tells_its_tokens_its_name_and_its_architecture(tmp_path: Path) -> None:
    model = write_gguf(
        tmp_path / "m.gguf",
        general__name=string_value("Tiny"),
        general__architecture=string_value("llama"),
        tokenizer__chat_template=string_value("{{ 1 }}"),
        tokenizer__ggml__tokens=array_bytes(["<s>", "a", "</s>"]),
        tokenizer__ggml__bos_token_id=struct.pack("<II", 4, 0),
        tokenizer__ggml__eos_token_id=struct.pack("<II", 4, 2),
    )
    assert read_checkpoint(model) == Checkpoint("{{ 1 }}", "<s>", "</s>", "Tiny", "llama")


def test_a_token_that_is_not_in_the_vocabulary_is_empty(tmp_path: Path) -> None:
    model = write_gguf(
        tmp_path / "m.gguf",
        tokenizer__chat_template=string_value("{{ 1 }}"),
        tokenizer__ggml__tokens=array_bytes(["<s>"]),
        tokenizer__ggml__bos_token_id=struct.pack("<II", 4, 7),
    )
    assert read_checkpoint(model) == Checkpoint("{{ 1 }}", name="m.gguf")


def test_a_folder_tells_its_tokens_as_text_or_as_objects(tmp_path: Path) -> None:
    settings = {"chat_template": "{{ 1 }}", "bos_token": {"content": "<s>", "lstrip": False}, "eos_token": "</s>"}
    model = write_folder(tmp_path / "tiny", settings, config__json='{"model_type": "llama"}')
    assert read_checkpoint(model) == Checkpoint("{{ 1 }}", "<s>", "</s>", "tiny", "llama")
    assert read_checkpoint(write_folder(tmp_path / "b", {"chat_template": "x", "bos_token": None})).bos == ""


NAMED = [{"name": "default", "template": "plain"}, {"name": "rag", "template": "r"}]
TOOL_USE = {"name": "tool_use", "template": "tools"}


@pytest.mark.parametrize("named, expected", [(NAMED, "plain"), ([*NAMED, TOOL_USE], "tools"), ([NAMED[1]], "r")])
def test_of_several_templates_the_one_for_tools_is_preferred(
    tmp_path: Path, named: list[dict[str, str]], expected: str
) -> None:
    assert read_checkpoint(write_folder(tmp_path / "m", {"chat_template": named})).template == expected
    pairs = {f"tokenizer__chat_template__{entry['name']}": string_value(entry["template"]) for entry in named}
    names = array_bytes([entry["name"] for entry in named])
    assert (
        read_checkpoint(write_gguf(tmp_path / "m.gguf", tokenizer__chat_templates=names, **pairs)).template == expected
    )


def test_a_template_in_a_file_beside_the_settings_is_the_one_that_is_used(tmp_path: Path) -> None:
    model = write_folder(tmp_path / "m", {"chat_template": "old"}, chat_template__jinja="new\r\n")
    assert read_checkpoint(model).template == "new\r\n"
    (model / "additional_chat_templates").mkdir()
    (model / "additional_chat_templates" / "tool_use.jinja").write_text("tools", encoding="utf-8")
    assert read_checkpoint(model).template == "tools"
    assert read_checkpoint(write_folder(tmp_path / "n", chat_template__jinja="alone")).template == "alone"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"tokenizer_config__json": "{}"},
        {"tokenizer_config__json": "[1]"},
        {"tokenizer_config__json": "{"},
        {"tokenizer_config__json": "[" * 100_000},
        {"tokenizer_config__json": '{"chat_template": [1, {"name": "x"}, null]}'},
        {"tokenizer_config__json": '{"chat_template": 3}'},
        {"chat_template__jinja": " \n"},
    ],
)
def test_a_folder_without_a_template_is_refused_with_a_code(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(FormatError) as refusal:
        read_checkpoint(write_folder(tmp_path / "m", None, **files))
    assert refusal.value.code == "bad_model_file"


def test_what_is_not_there_or_not_text_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot read") as refusal:
        read_checkpoint(tmp_path / "no.gguf")
    assert "gguf" in refusal.value.hint
    (tmp_path / "bad.jinja").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="not UTF-8"):
        read_checkpoint(tmp_path / "bad.jinja")
    with pytest.raises(FormatError, match="no chat template"):
        read_checkpoint(write_gguf(tmp_path / "m.gguf", general__name=string_value("x")))


def test_the_special_tokens_of_a_tokenizer_are_those_that_its_files_list(tmp_path: Path) -> None:
    model = write_gguf(
        tmp_path / "m.gguf",
        tokenizer__chat_template=string_value("{{ 1 }}"),
        tokenizer__ggml__tokens=array_bytes(["a", "<|end|>", "<tool>", "  "]),
        tokenizer__ggml__token_type=struct.pack("<IIQ4i", 9, 5, 4, 1, 3, 4, 4),
    )
    assert read_checkpoint(model).special_texts == {"<|end|>", "<tool>"}
    decoder = {"1": {"content": "<|end|>", "special": True}, "2": {"content": "  ", "special": False}}
    added = json.dumps({"added_tokens": [{"id": 3, "content": "<tool>", "special": False}]})
    settings = {"chat_template": "{{ 1 }}", "added_tokens_decoder": decoder}
    assert read_checkpoint(write_folder(tmp_path / "b", settings, tokenizer__json=added)).special_texts == {
        "<|end|>",
        "<tool>",
    }
