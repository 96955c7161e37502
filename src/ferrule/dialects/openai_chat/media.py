"""Images, recordings and files as parts of OpenAI's chat API, both ways.

| part | fields |
|---|---|
| `image_url` | `image_url.url`, an address or a data: URL; `image_url.detail` |
| `input_audio` | `input_audio.data` as base64, `input_audio.format`: wav or mp3 |
| `file` | `file.file_data` as a data: URL with `file.filename`, or `file.file_id` |
"""

from __future__ import annotations

from typing import Any

from ferrule.core.media import Media, MediaKind
from ferrule.dialects.field import Field
from ferrule.dialects.openai_media import PROVIDER, audio_part, read_address, read_audio, read_file, takes_audio

KINDS = ("image_url", "input_audio", "file")


def takes_media(media: Media) -> bool:
    """Whether the API has a part for it."""
    match media.kind:
        case MediaKind.IMAGE:
            return bool(media.address)
        case MediaKind.AUDIO:
            return takes_audio(media)
        case MediaKind.FILE:
            return bool(media.data) or (bool(media.file_id) and media.provider == PROVIDER)


def media_part(media: Media) -> dict[str, Any]:
    match media.kind:
        case MediaKind.IMAGE:
            detail = {"detail": media.detail} if media.detail else {}
            return {"type": "image_url", "image_url": {"url": media.address, **detail}}
        case MediaKind.AUDIO:
            return audio_part(media)
        case MediaKind.FILE if media.file_id:
            return {"type": "file", "file": {"file_id": media.file_id}}
        case MediaKind.FILE:
            return {"type": "file", "file": {"filename": media.name or "file", "file_data": media.address}}


def read_media(part: Field, kind: str) -> Media:
    """Read a part of one of `KINDS`."""
    field = part[kind]
    match kind:
        case "image_url" if isinstance(field.value, str):
            # Some clients leave the object out.
            return read_address(MediaKind.IMAGE, field)
        case "image_url":
            return read_address(MediaKind.IMAGE, field["url"], detail=field["detail"].or_else(Field.string, ""))
        case "input_audio":
            return read_audio(field)
        case _:
            name = field["filename"].or_else(Field.string, "")
            return read_file(field, data="file_data", name=name)
