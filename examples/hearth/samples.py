"""Creates a picture and a recording to try the tools: `python -m hearth.samples`."""

from __future__ import annotations

import math
import struct
import wave
import zlib
from pathlib import Path

from hearth.files import folder


def main() -> None:
    place = folder()
    place.mkdir(exist_ok=True)
    (place / "sunset.png").write_bytes(picture())
    record(place / "bell.wav")
    print(f"sunset.png and bell.wav are in {place}")


def picture(width: int = 120, height: int = 80) -> bytes:
    """An orange sky over a blue sea."""
    rows = [bytes([0]) + (b"\xf5\x8c\x1e" if at < 50 else b"\x32\x5a\xc8") * width for at in range(height)]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def record(path: Path, rate: int = 8_000) -> None:
    """A second of a bell, half a second of nothing, and the bell again."""
    bell = [math.sin(2 * math.pi * 440 * at / rate) * 0.5 for at in range(rate)]
    samples = [*bell, *([0.0] * (rate // 2)), *bell]
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(b"".join(struct.pack("<h", int(value * 32_767)) for value in samples))


if __name__ == "__main__":
    main()
