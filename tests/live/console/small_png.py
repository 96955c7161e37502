"""Reduces a screenshot to a PNG with 256 colours: a third of the size, without a visible difference."""

from __future__ import annotations

import struct
import zlib

import numpy as np

_MAX_COLOURS, _FREQUENT_COLOURS = 256, 64
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def small_png(png: bytes) -> bytes:
    """Reduce a PNG with 8 bits per channel. If it has more than 256 colours, map each to the nearest in the palette."""
    pixels = _pixels(png)
    height, width, _ = pixels.shape
    packed = pixels.astype(np.uint32) @ np.array([65536, 256, 1], dtype=np.uint32)
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    palette = _palette(_split(colours), counts)
    nearest = np.array([_nearest(colour, palette) for colour in _split(colours)], dtype=np.uint8)
    rows = nearest[places.reshape(height, width)]
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), rows]).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    body = zlib.compress(lines, 9)
    return _SIGNATURE + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", head),
            (b"PLTE", palette.astype(np.uint8).tobytes()),
            (b"IDAT", body),
            (b"IEND", b""),
        )
    )


def _split(packed: np.ndarray) -> np.ndarray:
    return np.stack([packed >> 16, (packed >> 8) & 255, packed & 255], axis=-1).astype(np.int32)


def _palette(colours: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Choose the most frequent colours, then repeatedly add the colour that is worst approximated."""
    order = np.argsort(-counts)
    chosen = list(order[:_FREQUENT_COLOURS])
    distances = np.min([((colours - colours[one]) ** 2).sum(axis=1) for one in chosen], axis=0)
    while len(chosen) < min(_MAX_COLOURS, len(colours)):
        worst = int(np.argmax(distances * counts))
        chosen.append(worst)
        distances = np.minimum(distances, ((colours - colours[worst]) ** 2).sum(axis=1))
    return colours[chosen]


def _nearest(colour: np.ndarray, palette: np.ndarray) -> int:
    return int(np.argmin(((palette - colour) ** 2).sum(axis=1)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _pixels(png: bytes) -> np.ndarray:
    """Decode a PNG to the red, green and blue of each pixel."""
    assert png.startswith(_SIGNATURE)
    at, body, width, height, deep = len(_SIGNATURE), b"", 0, 0, 3
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        data = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, bits, colours = struct.unpack(">IIBB", data[:10])
            assert bits == 8
            deep = {2: 3, 6: 4}[colours]
        body += data if kind == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(body), dtype=np.uint8).reshape(height, 1 + width * deep)
    drawn = np.zeros((height, width * deep), dtype=np.uint8)
    above = np.zeros(width * deep, dtype=np.uint8)
    for number, line in enumerate(lines):
        above = drawn[number] = _unfilter(int(line[0]), line[1:], above, deep)
    return drawn.reshape(height, width, deep)[:, :, :3]


def _unfilter(manner: int, line: np.ndarray, above: np.ndarray, deep: int) -> np.ndarray:
    """Undo the PNG filter of one line."""
    match manner:
        case 0:
            return line
        case 1:
            return np.cumsum(line.reshape(-1, deep), axis=0, dtype=np.uint8).reshape(-1)
        case 2:
            return line + above
        case _:
            out = [0] * len(line)
            for at, (value, up) in enumerate(zip(line.tolist(), above.tolist(), strict=True)):
                left, corner = (out[at - deep], int(above[at - deep])) if at >= deep else (0, 0)
                guess = (left + up) // 2 if manner == 3 else _paeth(left, up, corner)
                out[at] = (value + guess) & 255
            return np.array(out, dtype=np.uint8)


def _paeth(left: int, up: int, corner: int) -> int:
    """Paeth predictor: the neighbour that is closest to left + up - corner."""
    plane = left + up - corner
    return min((abs(plane - left), 0, left), (abs(plane - up), 1, up), (abs(plane - corner), 2, corner))[2]
