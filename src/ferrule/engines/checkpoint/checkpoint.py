"""Checkpoint: reads a model's chat template from a GGUF file, a model's folder or a .jinja file.

Which format the template is written for is detected elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.engines.checkpoint.gguf import read_metadata, special_texts_of
from ferrule.engines.checkpoint.special_tokens import is_added_token
from ferrule.errors import FormatError

_CODE = "bad_model_file"
_TEMPLATE_HINT = "Pass the template itself, as a .jinja file."
_MAX_BYTES = 64 * 1024 * 1024
# If a checkpoint has several templates, the one for tools comes first.
_PREFERRED_NAMES = ("tool_use", "default")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's chat template and the texts of its first and last token; `architecture` is "" if unknown.

    `special_texts` are all special tokens of its tokenizer; empty if they are unknown.
    """

    template: str
    bos: str = ""
    eos: str = ""
    name: str = ""
    architecture: str = ""
    special_texts: frozenset[str] = frozenset()


def read_checkpoint(path: Path) -> Checkpoint:
    """Read the chat template of a model's file or folder. `FormatError` if there is none."""
    try:
        if path.is_dir():
            return _from_folder(path)
        if path.suffix in (".jinja", ".jinja2", ".j2"):
            return Checkpoint(_choose_template({"default": _read_text(path)}, path), name=path.name)
        return _from_gguf(path)
    except OSError as refusal:
        raise FormatError(
            f"cannot read {path.name}: {refusal.strerror}",
            code=_CODE,
            hint="Pass a .gguf file, a folder with tokenizer_config.json, or a .jinja file.",
        ) from refusal


def _from_gguf(path: Path) -> Checkpoint:
    metadata = read_metadata(path)
    named = {
        name: metadata.get(f"tokenizer.chat_template.{name}")
        for name in cast("list[str]", metadata.get("tokenizer.chat_templates") or [])
    }
    return Checkpoint(
        _choose_template({"default": metadata.get("tokenizer.chat_template"), **named}, path),
        _token(metadata, "bos"),
        _token(metadata, "eos"),
        str(metadata.get("general.name") or path.name),
        str(metadata.get("general.architecture") or ""),
        special_texts_of(metadata),
    )


def _token(metadata: Mapping[str, Any], which: str) -> str:
    number = metadata.get(f"tokenizer.ggml.{which}_token_id")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(number, int) or not isinstance(tokens, list):
        return ""
    texts = cast("list[Any]", tokens)
    return str(texts[number]) if 0 <= number < len(texts) else ""


def _from_folder(folder: Path) -> Checkpoint:
    settings = _read_object(folder / "tokenizer_config.json")
    setting = settings.get("chat_template")
    templates: dict[str, Any] = {"default": setting}
    if isinstance(setting, list):
        entries = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", setting) if isinstance(entry, dict)]
        templates = {str(entry.get("name")): entry.get("template") for entry in entries}
    # Newer checkpoints have their templates in separate files, which take precedence over the settings.
    files = {"default": folder / "chat_template.jinja"}
    files |= {file.stem: file for file in sorted(folder.glob("additional_chat_templates/*.jinja"))}
    templates |= {name: _read_text(file) for name, file in files.items() if file.is_file()}
    model = _read_object(folder / "config.json")
    return Checkpoint(
        _choose_template(templates, folder),
        _token_content(settings.get("bos_token")),
        _token_content(settings.get("eos_token")),
        folder.resolve().name,
        str(model.get("model_type") or ""),
        _added_tokens(folder, settings),
    )


def _added_tokens(folder: Path, settings: Mapping[str, Any]) -> frozenset[str]:
    """The special and added tokens of a tokenizer, by either of the files that list them."""
    listed = _read_object(folder / "tokenizer.json").get("added_tokens")
    decoder = settings.get("added_tokens_decoder")
    entries = [
        *cast("list[Any]", listed if isinstance(listed, list) else ()),
        *(cast("dict[str, Any]", decoder).values() if isinstance(decoder, dict) else ()),
    ]
    tokens = [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]
    texts = {_token_content(token): token.get("special") is True for token in tokens}
    return frozenset(text for text, is_special in texts.items() if text and (is_special or is_added_token(text)))


def _choose_template(templates: Mapping[str, Any], path: Path) -> str:
    texts = {name: text for name, text in templates.items() if isinstance(text, str) and text.strip()}
    if not texts:
        raise FormatError(f"{path.name} has no chat template", code=_CODE, hint=_TEMPLATE_HINT)
    return next((texts[name] for name in _PREFERRED_NAMES if name in texts), next(iter(texts.values())))


def _token_content(token: Any) -> str:
    """Return a token's text. The setting is the text, an object with the text under `content`, or null."""
    value = cast("dict[str, Any]", token).get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else ""


def _read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = loads(_read_text(path))
    except RecursionError as damage:
        raise FormatError(f"{path.name} is nested too deeply", code=_CODE) from damage
    except ValueError as damage:
        raise FormatError(f"{path.name} is not JSON ({damage})", code=_CODE) from damage
    if not isinstance(value, dict):
        raise FormatError(f"{path.name} is not a JSON object", code=_CODE)
    return cast("dict[str, Any]", value)


def _read_text(path: Path) -> str:
    if path.stat().st_size > _MAX_BYTES:
        raise FormatError(f"{path.name} is larger than {_MAX_BYTES} bytes", code=_CODE)
    try:
        # Newlines stay unchanged: the model was trained on exactly this text.
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as damage:
        raise FormatError(f"{path.name} is not UTF-8 text", code=_CODE) from damage
