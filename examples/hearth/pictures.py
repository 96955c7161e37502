"""The tool that describes a picture. The size and the colours of a PNG are read with only the standard library."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ferrule import ToolError, tool
from hearth import vision
from hearth.files import content_of

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_KINDS = {0: "greyscale", 2: "colour", 3: "palette", 4: "greyscale with transparency", 6: "colour with transparency"}
_JPEG = b"\xff\xd8\xff"
_NAMES = {
    "black": (0, 0, 0), "white": (255, 255, 255), "grey": (128, 128, 128), "red": (220, 40, 40),
    "orange": (245, 140, 30), "yellow": (240, 220, 50), "green": (50, 160, 70), "blue": (50, 90, 200),
    "light blue": (140, 190, 240), "purple": (130, 60, 160), "pink": (240, 150, 180), "brown": (120, 75, 40),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Picture:
    width: int
    height: int
    depth: int
    kind: int
    is_interlaced: bool
    palette: bytes
    data: bytes


@tool(isolation="process", bound_to=("img.describe", "1.0"))
def describe_image(file: str) -> dict[str, Any]:
    """Describes a picture: the text in it, its size and its main colours. A vision model also says what it shows.

    Args:
        file: the picture's name
    """
    content = content_of(file)
    media_type, facts = _facts(content)
    endpoint = vision.endpoint()
    if endpoint is not None:
        description = vision.ask_for_description(endpoint, media_type, content)
        return {"description": description, "model": endpoint.model, **facts}
    lines = vision.read_lines(content)
    return {"description": _sentences(lines, facts), "text": lines, "model": "rapidocr", **facts}


def _facts(content: bytes) -> tuple[str, dict[str, Any]]:
    """The media type, and what the file itself says of the picture."""
    if content.startswith(_JPEG):
        return "image/jpeg", {"format": "JPEG"}
    if not content.startswith(_SIGNATURE):
        raise ToolError("it is not a PNG or JPEG picture")
    picture = _read(content)
    facts: dict[str, Any] = {"format": "PNG", "width": picture.width, "height": picture.height}
    facts["kind"] = f"{_KINDS[picture.kind]}, {picture.depth} bits"
    if picture.depth == 8 and not picture.is_interlaced:
        facts["colours"] = _main_colours(picture)
    return "image/png", facts


def _sentences(lines: list[str], facts: dict[str, Any]) -> str:
    """What was read, without a guess at what the picture shows."""
    size = f" of {facts['width']} by {facts['height']} pixels" if "width" in facts else ""
    colours = " and ".join(entry["colour"] for entry in facts.get("colours", ())[:2])
    text = f"The text in it: {'; '.join(lines)}" if lines else "No text was found in it."
    return f"A {facts['format']} picture{size}{f', mostly {colours}' if colours else ''}. {text}"


def _read(content: bytes) -> _Picture:
    try:
        chunks = list(_chunks(content))
        width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", dict(chunks)[b"IHDR"])
        if kind not in _CHANNELS or not 0 < width * height <= vision.MOST_PIXELS:
            raise ToolError("the picture is too large, or of an unknown kind")
        packed = b"".join(data for name, data in chunks if name == b"IDAT")
        # A limit on the decompressed size: the file may decompress to more than the picture needs.
        size = height * (1 + (width * _CHANNELS[kind] * depth + 7) // 8)
        data = zlib.decompressobj().decompress(packed, size)
    except (struct.error, zlib.error, KeyError) as problem:
        raise ToolError("the picture is damaged") from problem
    return _Picture(width, height, depth, kind, bool(interlaced), dict(chunks).get(b"PLTE", b""), data)


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at + 8 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        yield content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        at += length + 12


def _main_colours(picture: _Picture) -> list[dict[str, Any]]:
    counted: Counter[str] = Counter()
    step = max(1, picture.height // 100)
    for number, row in enumerate(_rows(picture)):
        if number % step == 0:
            counted.update(_colour(picture, row, at) for at in range(0, picture.width, max(1, picture.width // 100)))
    total = counted.total()
    return [{"colour": name, "percent": round(100 * count / total)} for name, count in counted.most_common(4)]


def _colour(picture: _Picture, row: bytes, at: int) -> str:
    channels = _CHANNELS[picture.kind]
    values = row[at * channels : (at + 1) * channels]
    if picture.kind == 3:
        values = picture.palette[values[0] * 3 : values[0] * 3 + 3] or b"\0\0\0"
    red, green, blue = values[:3] if len(values) >= 3 else (values[0],) * 3
    return min(
        _NAMES, key=lambda name: sum((a - b) ** 2 for a, b in zip(_NAMES[name], (red, green, blue), strict=True))
    )


def _rows(picture: _Picture) -> Iterator[bytes]:
    """Undo the filter of each row of pixels."""
    channels = _CHANNELS[picture.kind]
    length = picture.width * channels
    above = bytes(length)
    for start in range(0, picture.height * (length + 1), length + 1):
        line = picture.data[start : start + length + 1]
        if len(line) <= length:
            raise ToolError("the picture is damaged")
        above = _undo_filter(line[0], line[1:], above, channels)
        yield above


def _undo_filter(kind: int, line: bytes, above: bytes, channels: int) -> bytes:
    row = bytearray(line)
    for at in range(len(row)):
        before = row[at - channels] if at >= channels else 0
        corner = above[at - channels] if at >= channels else 0
        match kind:
            case 0:
                break
            case 1:
                added = before
            case 2:
                added = above[at]
            case 3:
                added = (before + above[at]) // 2
            case _:
                guess = before + above[at] - corner
                added = min((before, above[at], corner), key=lambda value: abs(guess - value))
        row[at] = (row[at] + added) & 255
    return bytes(row)
