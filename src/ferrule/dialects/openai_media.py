"""What OpenAI's chat and Responses APIs have in common about images, recordings and files."""

from __future__ import annotations

from typing import Any

from ferrule.core.media import Media, MediaKind
from ferrule.dialects.field import Field

PROVIDER = "openai"
"""Whose file ids the APIs have."""
_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def takes_audio(media: Media) -> bool:
    """Whether the APIs have a part for a recording."""
    return bool(media.data) and media.media_type in _AUDIO_FORMATS


def audio_part(media: Media) -> dict[str, Any]:
    """Return the part of a recording."""
    audio = {"data": media.data, "format": _AUDIO_FORMATS[media.media_type]}
    return {"type": "input_audio", "input_audio": audio}


def read_address(kind: MediaKind, field: Field, *, name: str = "", detail: str = "") -> Media:
    url = field.string()
    return field.build(lambda: Media.from_data_url(kind, url, name=name, detail=detail))


def read_audio(field: Field) -> Media:
    media_type, data = field["format"].one_of(_AUDIO_TYPES), field["data"].string()
    return field["data"].build(lambda: Media(MediaKind.AUDIO, media_type, data=data))


def read_file(field: Field, *, data: str, name: str) -> Media:
    """Read a file that is an id, or data as a data: URL or as plain base64."""
    if field["file_id"].is_given:
        id = field["file_id"].string()
        return field["file_id"].build(lambda: Media(MediaKind.FILE, file_id=id, provider=PROVIDER, name=name))
    text = field[data].string()
    if text[:5].lower() == "data:":
        return read_address(MediaKind.FILE, field[data], name=name)
    return field[data].build(lambda: Media(MediaKind.FILE, data=text, name=name))
