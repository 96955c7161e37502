"""Media: an image, a recording or a file in a message or in a tool result, and the line that names it.

The bytes travel as the base64 text that came in, so that what an engine gets is what the client sent, to the letter. A
part may instead be the address of the data, or an id that a provider gave to an uploaded file. Nothing here fetches an
address.

An engine that cannot take a part gets one line of text in its place (`name_media`), so the model knows that something
was there, and the conversation continues.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ferrule.errors import DefinitionError, TooLargeError


class MediaKind(StrEnum):
    """What a part is for a model: something to see, to hear or to read.

    Example:
        Media(MediaKind.IMAGE, "image/png", data=Path("chart.png").read_bytes())
    """

    IMAGE = "image"
    AUDIO = "audio"
    FILE = "file"


ALL_MEDIA = frozenset(kind.value for kind in MediaKind)
_CANNOT = {
    MediaKind.IMAGE: "cannot see images",
    MediaKind.AUDIO: "cannot hear audio",
    MediaKind.FILE: "cannot open files",
}
_MAX_NAME = 100
_MAX_FIELD = 2_000
_MAX_URL = 16_000
_SCHEMES = ("https://", "http://")


@dataclass(frozen=True, slots=True, init=False)
class Media:
    """An image, a recording or a file. Give its `data`, or a `url`, or the `file_id` of a `provider`.

    `data` is bytes or base64 text; it is kept as base64 text. `detail` is how closely a model should look at an image.

    Example:
        chart = Media("image", "image/png", data=Path("chart.png").read_bytes(), name="chart.png")
        reply = await engine.ask([ChatMessage("user", ["What does this show?", chart])])
    """

    kind: MediaKind
    media_type: str
    data: str = field(repr=False)
    url: str
    file_id: str
    provider: str
    name: str
    detail: str

    def __init__(
        self,
        kind: MediaKind | str,
        media_type: str = "",
        *,
        data: bytes | str = "",
        url: str = "",
        file_id: str = "",
        provider: str = "",
        name: str = "",
        detail: str = "",
    ) -> None:
        text = base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data
        if sum(map(bool, (text, url, file_id))) != 1:
            raise DefinitionError(
                "an image, a recording or a file needs exactly one of data, url and file_id",
                hint="Write data= with bytes or base64 text, url= with an address, or file_id=.",
            )
        if not isinstance(data, bytes):
            _require_base64(text)
        _require_texts(url=url, media_type=media_type, file_id=file_id, provider=provider, name=name, detail=detail)
        set_field = object.__setattr__
        set_field(self, "kind", _to_kind(kind))
        set_field(self, "media_type", media_type)
        set_field(self, "data", text)
        set_field(self, "url", url)
        set_field(self, "file_id", file_id)
        set_field(self, "provider", provider)
        set_field(self, "name", name)
        set_field(self, "detail", detail)

    @property
    def size(self) -> int:
        """How many bytes the data has; 0 for an address or a file id."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")

    @property
    def content(self) -> bytes:
        """The bytes; none for an address or a file id."""
        return base64.b64decode(self.data)

    @property
    def address(self) -> str:
        """The address: the one that was given, or a `data:` URL with the data."""
        return f"data:{self.media_type};base64,{self.data}" if self.data else self.url

    @property
    def label(self) -> str:
        """The name, type and size on one line: "chart.png, image/png, 34 kB"."""
        name = self.name or (self.url if self.url else self.file_id)
        size = size_text(self.size) if self.data else ""
        return ", ".join(filter(None, (_line(name), _line(self.media_type), size))) or "without a name"

    def as_dict(self) -> dict[str, Any]:
        """Return the part as JSON, as in a saved conversation. Fields without a value are left out."""
        values = {name: getattr(self, name) for name in MEDIA_FIELDS}
        return {"media": self.kind.value, **{name: value for name, value in values.items() if value}}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Media:
        """Return the part that `as_dict` wrote."""
        return Media(data["media"], **{name: data[name] for name in MEDIA_FIELDS if data.get(name)})

    @staticmethod
    def from_data_url(kind: MediaKind | str, url: str, *, name: str = "", detail: str = "") -> Media:
        """Return the part of an address, which may be a `data:` URL with base64.

        Example:
            Media.from_data_url("image", "data:image/png;base64,iVBORw0KGgo=")
        """
        if url[:5].lower() != "data:":
            if not url.lower().startswith(_SCHEMES):
                raise DefinitionError(
                    f"{url[:60]!r} is not an address", hint="Send a data: URL with base64, or an https:// address."
                )
            return Media(kind, url=url, name=name, detail=detail)
        head, comma, data = url[5:].partition(",")
        media_type, *parameters = head.split(";")
        if not comma or "base64" not in parameters:
            raise DefinitionError(
                "a data: URL must contain base64", hint="Send data:image/png;base64, followed by the data."
            )
        return Media(kind, media_type, data=data, name=name, detail=detail)


MEDIA_FIELDS = ("media_type", "data", "url", "file_id", "provider", "name", "detail")


def size_text(size: int) -> str:
    """Return a number of bytes for a reader.

    Example:
        assert size_text(34_200) == "34 kB"
    """
    for unit, step in (("MB", 1_000_000), ("kB", 1_000)):
        if size >= step:
            return f"{size / step:.0f} {unit}"
    return f"{size} bytes"


def name_media(media: Media, number: int) -> str:
    """Return the line that a model reads in place of a part that its engine cannot take.

    Example:
        name_media(screenshot, 1)  # [image 1: screenshot.png, image/png, 34 kB; this model cannot see images]
    """
    return f"[{media.kind.value} {number}: {media.label}; this model {_CANNOT[media.kind]}]"


def media_line(media: Media) -> str:
    """Return the part for a reader, such as the console or a trace: its kind, name, type and size."""
    return f"[{media.kind.value}: {media.label}]"


def require_sizes(parts: Iterable[Media], *, max_count: int, max_bytes: int, max_total_bytes: int) -> None:
    """Raise a `TooLargeError` if there are too many parts, or too large ones."""
    total = 0
    for at, media in enumerate(parts):
        total += media.size
        if at >= max_count:
            raise _limit_error(f"the request has more than {max_count} images, recordings and files")
        if media.size > max_bytes:
            size, limit = size_text(media.size), size_text(max_bytes)
            raise _limit_error(f"the {media.kind.value} {media.label!r} has {size}; one may have {limit}")
        if total > max_total_bytes:
            raise _limit_error(f"images, recordings and files have more than {size_text(max_total_bytes)} together")


def to_media_kinds(kinds: Iterable[str]) -> frozenset[str]:
    """Return the kinds that a caller lists; one text may list several, and "none" stands for an empty list."""
    names = kinds.split(",") if isinstance(kinds, str) else kinds
    listed = frozenset(name.strip() for name in names) - {"none", ""}
    unknown = sorted(listed - ALL_MEDIA)
    if unknown:
        raise DefinitionError(
            f"unknown kinds of media: {', '.join(unknown)}",
            hint=f"Write some of {', '.join(sorted(ALL_MEDIA))}, or none.",
        )
    return listed


def _limit_error(message: str) -> TooLargeError:
    return TooLargeError(message, code="media_too_large", hint="Send fewer or smaller ones, or send their addresses.")


def _to_kind(value: MediaKind | str) -> MediaKind:
    try:
        return MediaKind(value)
    except ValueError:
        kinds = ", ".join(repr(kind.value) for kind in MediaKind)
        raise DefinitionError(f"a part has the kind {value!r:.60}", hint=f"Write one of {kinds}.") from None


def _require_base64(text: str) -> None:
    try:
        binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError as damage:
        raise DefinitionError(
            f"the data is not base64 ({damage})"[:200], hint="Send the bytes as standard base64, on one line."
        ) from None


def _require_texts(**texts: str) -> None:
    for name, text in texts.items():
        limit = _MAX_URL if name == "url" else _MAX_FIELD
        if len(text) > limit:
            raise DefinitionError(
                f"the {name} of a part has more than {limit} characters", hint=f"Send a shorter {name}."
            )


def _line(text: str) -> str:
    """A text on one line, without what ends the note that it stands in."""
    plain = "".join(character if character.isprintable() and character not in "[]" else " " for character in text)
    plain = " ".join(plain.split())
    return plain if len(plain) <= _MAX_NAME else f"{plain[:_MAX_NAME]}..."
