"""Creates pictures and recordings to try the tools: `python -m hearth.samples`."""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
import wave
import zlib
from pathlib import Path

from hearth.files import folder

SIGN = "FRESH EGGS"
NOTE = "The boiler pressure should be between one and two bar."
_INK, _PAPER = b"\x1e\x1e\x1e", b"\xf0\xdc\x32"
_SCALE = _MARGIN = 4
# Five bits for each of the seven rows of a letter.
_LETTERS = {
    " ": (0, 0, 0, 0, 0, 0, 0),
    "E": (31, 16, 16, 30, 16, 16, 31),
    "F": (31, 16, 16, 30, 16, 16, 16),
    "G": (14, 17, 16, 23, 17, 17, 14),
    "H": (17, 17, 17, 31, 17, 17, 17),
    "R": (30, 17, 17, 30, 20, 18, 17),
    "S": (15, 16, 16, 14, 1, 1, 30),
}


def main() -> None:
    place = folder()
    place.mkdir(exist_ok=True)
    (place / "sunset.png").write_bytes(sunset())
    (place / "sign.png").write_bytes(sign(SIGN))
    record(place / "bell.wav")
    print(f"sunset.png, sign.png and bell.wav are in {place}")
    if shutil.which("flite"):
        speak(place / "note.wav", NOTE)
        print(f"note.wav says: {NOTE}")
    else:
        print("note.wav, a spoken sentence, needs flite: scripts/setup-hearth installs it")


def sunset(width: int = 120, height: int = 80) -> bytes:
    """An orange sky over a blue sea."""
    return _png([(b"\xf5\x8c\x1e" if at < 50 else b"\x32\x5a\xc8") * width for at in range(height)])


def sign(text: str) -> bytes:
    """Large dark letters on yellow."""
    side, edge = [0] * _MARGIN, [[0] * (6 * len(text) + 2 * _MARGIN)] * _MARGIN
    rows = list(edge)
    for row in range(7):
        bits = [bit for letter in text for bit in (0, *(_LETTERS[letter][row] >> at & 1 for at in range(4, -1, -1)))]
        rows.append([*side, *bits, *side])
    rows += edge
    lines = [b"".join((_INK if bit else _PAPER) * _SCALE for bit in row) for row in rows]
    return _png([line for line in lines for _ in range(_SCALE)])


def record(path: Path, rate: int = 8_000) -> None:
    """A second of a bell, half a second of nothing, and the bell again."""
    bell = [math.sin(2 * math.pi * 440 * at / rate) * 0.5 for at in range(rate)]
    samples = [*bell, *([0.0] * (rate // 2)), *bell]
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(b"".join(struct.pack("<h", int(value * 32_767)) for value in samples))


def speak(path: Path, text: str, voice: str = "rms") -> None:
    """A sentence, spoken by Flite, a small speech synthesiser."""
    subprocess.run(["flite", "-voice", voice, "-t", text, "-o", str(path)], check=True)


def _png(lines: list[bytes]) -> bytes:
    """A picture with three bytes for each pixel."""
    header = struct.pack(">IIBBBBB", len(lines[0]) // 3, len(lines), 8, 2, 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + line for line in lines))
    parts = [(b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


if __name__ == "__main__":
    main()
