"""Checkpoint: the chat template that a model brings along, from a GGUF file, a model's folder or a template's own file.

Reads files and decides nothing: which format the template is written for is found elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.engines.checkpoint.gguf import read_metadata
from ferrule.errors import FormatError

_CODE = "bad_model_file"
_GIVE_IT = "Give the template itself, as a .jinja file."
_MOST_BYTES = 64 * 1024 * 1024
# Where a checkpoint has several templates, the one that knows tools comes first.
_PREFERRED = ("tool_use", "default")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's chat template with the texts of its first and last token; `architecture` is "" where it is not told."""

    template: str
    bos: str = ""
    eos: str = ""
    name: str = ""
    architecture: str = ""


def read_checkpoint(path: Path) -> Checkpoint:
    """What a model's file or folder says of its chat template. `FormatError` where there is none."""
    try:
        if path.is_dir():
            return _from_folder(path)
        if path.suffix in (".jinja", ".jinja2", ".j2"):
            return Checkpoint(_preferred({"default": _text(path)}, path), name=path.name)
        return _from_gguf(path)
    except OSError as refusal:
        raise FormatError(
            f"cannot read {path.name}: {refusal.strerror}",
            code=_CODE,
            hint="Name a .gguf file, a folder with tokenizer_config.json, or a .jinja file.",
        ) from refusal


def _from_gguf(path: Path) -> Checkpoint:
    metadata = read_metadata(path)
    named = {
        name: metadata.get(f"tokenizer.chat_template.{name}")
        for name in cast("list[str]", metadata.get("tokenizer.chat_templates") or [])
    }
    return Checkpoint(
        _preferred({"default": metadata.get("tokenizer.chat_template"), **named}, path),
        _token(metadata, "bos"),
        _token(metadata, "eos"),
        str(metadata.get("general.name") or path.name),
        str(metadata.get("general.architecture") or ""),
    )


def _token(metadata: Mapping[str, Any], which: str) -> str:
    number = metadata.get(f"tokenizer.ggml.{which}_token_id")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(number, int) or not isinstance(tokens, list):
        return ""
    texts = cast("list[Any]", tokens)
    return str(texts[number]) if 0 <= number < len(texts) else ""


def _from_folder(folder: Path) -> Checkpoint:
    settings = _object(folder / "tokenizer_config.json")
    told = settings.get("chat_template")
    found: dict[str, Any] = {"default": told}
    if isinstance(told, list):
        entries = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", told) if isinstance(entry, dict)]
        found = {str(entry.get("name")): entry.get("template") for entry in entries}
    # Newer checkpoints have their templates in files beside the settings, and these are the ones that are used.
    beside = {"default": folder / "chat_template.jinja"}
    beside |= {file.stem: file for file in sorted(folder.glob("additional_chat_templates/*.jinja"))}
    found |= {name: _text(file) for name, file in beside.items() if file.is_file()}
    model = _object(folder / "config.json")
    return Checkpoint(
        _preferred(found, folder),
        _content(settings.get("bos_token")),
        _content(settings.get("eos_token")),
        folder.resolve().name,
        str(model.get("model_type") or ""),
    )


def _preferred(found: Mapping[str, Any], path: Path) -> str:
    templates = {name: text for name, text in found.items() if isinstance(text, str) and text.strip()}
    if not templates:
        raise FormatError(f"{path.name} carries no chat template", code=_CODE, hint=_GIVE_IT)
    return next((templates[name] for name in _PREFERRED if name in templates), next(iter(templates.values())))


def _content(token: Any) -> str:
    """A token is its text, or an object that has it under `content`; it may also be null."""
    value = cast("dict[str, Any]", token).get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else ""


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = loads(_text(path))
    except RecursionError as damage:
        raise FormatError(f"{path.name} is nested too deeply", code=_CODE) from damage
    except ValueError as damage:
        raise FormatError(f"{path.name} is not JSON ({damage})", code=_CODE) from damage
    if not isinstance(value, dict):
        raise FormatError(f"{path.name} is not a JSON object", code=_CODE)
    return cast("dict[str, Any]", value)


def _text(path: Path) -> str:
    if path.stat().st_size > _MOST_BYTES:
        raise FormatError(f"{path.name} is too large to be what its name says", code=_CODE)
    try:
        # Newlines as they stand: a template's text is what the model was trained on.
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as damage:
        raise FormatError(f"{path.name} is not UTF-8 text", code=_CODE) from damage
