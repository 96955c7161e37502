"""Images and documents as blocks of the Messages API, both ways. The API has no recordings.

| block | source |
|---|---|
| `image` | `base64` with `media_type` and `data`, `url`, `file` |
| `document` | the same (PDF), `text` with the text itself, `content` with blocks |

A document of text is read as text, under its title, so that every engine can read it.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from ferrule.core.media import Media, MediaKind
from ferrule.core.message import Text
from ferrule.dialects.field import Field

PROVIDER = "anthropic"
"""Whose file ids the API has."""
KINDS = ("image", "document")
PDF, PLAIN = "application/pdf", "text/plain"
_MEDIA_KINDS = {"image": MediaKind.IMAGE, "document": MediaKind.FILE}


def takes_media(media: Media) -> bool:
    """Whether the API has a block for it."""
    if media.kind is MediaKind.AUDIO:
        return False
    if media.file_id:
        return media.provider == PROVIDER
    return media.kind is MediaKind.IMAGE or bool(media.url) or media.media_type == PDF or _text_of(media) is not None


def media_block(media: Media) -> dict[str, Any]:
    if media.kind is MediaKind.IMAGE:
        return {"type": "image", "source": _source(media)}
    text = _text_of(media) if media.data else None
    source = _source(media) if text is None else {"type": "text", "media_type": PLAIN, "data": text}
    return {"type": "document", "source": source, **({"title": media.name} if media.name else {})}


def read_media(block: Field, kind: str) -> list[Text | Media]:
    """Read a block of one of `KINDS`."""
    source, title = block["source"], ""
    if kind == "document":
        title = block["title"].or_else(Field.string, "")
    media_kind = _MEDIA_KINDS[kind]
    match source["type"].string():
        case "base64":
            media_type, data = source["media_type"].string(), source["data"].string()
            return [source["data"].build(lambda: Media(media_kind, media_type, data=data, name=title))]
        case "url":
            url = source["url"].string()
            return [source["url"].build(lambda: Media.from_data_url(media_kind, url, name=title))]
        case "file":
            id = source["file_id"].string()
            return [source["file_id"].build(lambda: Media(media_kind, file_id=id, provider=PROVIDER, name=title))]
        case "text" if kind == "document":
            return [_titled(title, source["data"].string())]
        case "content" if kind == "document":
            return [Text(f"{title}\n")] * bool(title) + _read_content(source["content"])
        case other:
            raise source["type"].refusal(
                f"{other[:60]!r} is not supported", "Send base64, url or file; a document may also be text or content."
            )


def read_text_or_media(block: Field) -> list[Text | Media]:
    kind = block["type"].string()
    if kind == "text":
        return [Text(block["text"].string())]
    if kind in KINDS:
        return read_media(block, kind)
    raise block["type"].refusal(f"{kind[:60]!r} is not supported", f"Send text, {' or '.join(KINDS)}.")


def _read_content(content: Field) -> list[Text | Media]:
    if isinstance(content.value, str):
        return [Text(content.value)]
    parts: list[Text | Media] = []
    for block in content.items():
        kind = block["type"].string()
        if kind not in ("text", "image"):
            raise block["type"].refusal(f"{kind[:60]!r} is not supported here", "Send text or image.")
        parts += read_text_or_media(block)
    return parts


def _titled(title: str, text: str) -> Text:
    return Text(f"{title}\n{text}" if title else text)


def _source(media: Media) -> dict[str, Any]:
    if media.data:
        return {"type": "base64", "media_type": media.media_type, "data": media.data}
    return {"type": "url", "url": media.url} if media.url else {"type": "file", "file_id": media.file_id}


def _text_of(media: Media) -> str | None:
    """The text of a file of text; None for another one."""
    if not media.media_type.startswith("text/"):
        return None
    try:
        return base64.b64decode(media.data).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
