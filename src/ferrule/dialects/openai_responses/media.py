"""Images, recordings and files as parts of the Responses API, both ways.

| part | fields |
|---|---|
| `input_image` | `image_url`, an address or a data: URL, or `file_id`; `detail` |
| `input_file` | `file_data` with `filename`, or `file_url`, or `file_id` |
| `input_audio` | `input_audio.data` as base64, `input_audio.format`: wav or mp3 |
"""

from __future__ import annotations

from typing import Any

from ferrule.core.media import Media, MediaKind
from ferrule.core.message import Text
from ferrule.dialects.field import Field
from ferrule.dialects.openai_media import PROVIDER, audio_part, read_address, read_audio, read_file, takes_audio

KINDS = ("input_image", "input_file", "input_audio")


def takes_media(media: Media) -> bool:
    """Whether the API has a part for it."""
    if media.kind is MediaKind.AUDIO:
        return takes_audio(media)
    return not media.file_id or media.provider == PROVIDER


def part_body(part: Text | Media) -> dict[str, Any]:
    """Return a part of what a user or a tool sends."""
    return {"type": "input_text", "text": part.text} if isinstance(part, Text) else media_part(part)


def media_part(media: Media) -> dict[str, Any]:
    match media.kind:
        case MediaKind.IMAGE:
            source = {"file_id": media.file_id} if media.file_id else {"image_url": media.address}
            # The API requires a detail.
            return {"type": "input_image", "detail": media.detail or "auto", **source}
        case MediaKind.AUDIO:
            return audio_part(media)
        case MediaKind.FILE if media.data:
            return {"type": "input_file", "filename": media.name or "file", "file_data": media.address}
        case MediaKind.FILE:
            return {"type": "input_file", **({"file_url": media.url} if media.url else {"file_id": media.file_id})}


def read_media(part: Field, kind: str) -> Media:
    """Read a part of one of `KINDS`."""
    if kind == "input_audio":
        return read_audio(part["input_audio"])
    if kind == "input_image":
        detail = part["detail"].or_else(Field.string, "")
        if part["file_id"].is_given:
            id = part["file_id"].string()
            return part["file_id"].build(lambda: Media(MediaKind.IMAGE, file_id=id, provider=PROVIDER, detail=detail))
        return read_address(MediaKind.IMAGE, part["image_url"], detail=detail)
    name = part["filename"].or_else(Field.string, "")
    if part["file_url"].is_given:
        return read_address(MediaKind.FILE, part["file_url"], name=name)
    return read_file(part, data="file_data", name=name)
