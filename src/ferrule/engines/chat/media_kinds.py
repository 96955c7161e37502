"""Ask a server which kinds of media a model takes. A name is never a reason to believe it.

| where | what it says |
|---|---|
| `GET /v1/models`, `architecture.input_modalities` | a list of "image", "audio", "file": OpenRouter |
| `GET /v1/models/MODEL`, `capabilities.image_input`, `capabilities.pdf_input` | `{"supported": true}`: Anthropic |
| `GET /props`, `modalities.vision`, `modalities.audio` | true with a projector: llama.cpp's server |
| `POST /api/show`, `capabilities` | a list with "vision": Ollama |

A server that says nothing about it, such as vLLM's, counts as one that takes none: set the engine's option `media`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import quote

from ferrule.core.media import ALL_MEDIA
from ferrule.engines.http import HttpClient
from ferrule.errors import EngineError

FindMediaKinds = Callable[[HttpClient], Awaitable[frozenset[str]]]
_LLAMA_KINDS = {"vision": "image", "audio": "audio"}
_ANTHROPIC_KINDS = {"image_input": "image", "pdf_input": "file"}


def openai_media_kinds(model: str) -> FindMediaKinds:
    """Ask a server with OpenAI's API."""

    async def find(http: HttpClient) -> frozenset[str]:
        listed = _fields(await _get(http, "/models")).get("data")
        entries = [_fields(entry) for entry in cast("list[object]", listed)] if isinstance(listed, list) else []
        entry = next((one for one in entries if one.get("id") == model), entries[0] if len(entries) == 1 else {})
        said = _fields(entry.get("architecture")).get("input_modalities")
        if isinstance(said, list):
            return ALL_MEDIA.intersection(map(str, cast("list[object]", said)))
        root = HttpClient(http.base.removesuffix("/v1"), http.headers, http.deadlines)
        try:
            modalities = _fields(_fields(await _get(root, "/props")).get("modalities"))
        finally:
            await root.close()
        return frozenset(kind for name, kind in _LLAMA_KINDS.items() if modalities.get(name) is True)

    return find


def anthropic_media_kinds(model: str) -> FindMediaKinds:
    """Ask a server with Anthropic's API."""

    async def find(http: HttpClient) -> frozenset[str]:
        entry = _fields(await _get(http, f"/v1/models/{quote(model, safe='')}"))
        capabilities = _fields(entry.get("capabilities"))
        supported = {name for name in _ANTHROPIC_KINDS if _fields(capabilities.get(name)).get("supported") is True}
        return frozenset(_ANTHROPIC_KINDS[name] for name in supported)

    return find


def ollama_media_kinds(model: str) -> FindMediaKinds:
    """Ask an Ollama server."""

    async def find(http: HttpClient) -> frozenset[str]:
        try:
            said = _fields(await http.post("/api/show", {"model": model})).get("capabilities")
        except EngineError as refusal:
            if not refusal.is_refusal:
                raise
            return frozenset()
        is_listed = isinstance(said, list) and "vision" in cast("list[object]", said)
        return frozenset({"image"}) if is_listed else frozenset()

    return find


async def _get(http: HttpClient, path: str) -> Any:
    """The answer; None if the server has no such page."""
    try:
        return await http.get(path)
    except EngineError as refusal:
        if not refusal.is_refusal:
            raise
        return None


def _fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
