"""Files: what the console's build made, read once. A request is looked up among them and never opens anything.

Must not know routes. A path that leads out of the folder is one that is not among them.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

STATIC = Path(__file__).with_name("static")
INDEX = "index.html"
ASSETS = "assets/"
"""Where the build puts the files whose names follow from what is in them."""
_HASHED = re.compile(re.escape(ASSETS) + r"[\w.-]*-[\w-]{8,}\.[a-z0-9]+")
_COMPRESSED = ".gz"
_TRAILER = struct.Struct("<II")
# A table of our own: the one of the machine may call a script text, and then no browser runs it.
_KINDS: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_UNKNOWN_KIND = "application/octet-stream"
_NOTHING = re.compile(r"\s*q\s*=\s*0(?:\.0*)?\s*")


@dataclass(frozen=True, slots=True)
class File:
    """`compressed` is the same by gzip, empty where there is none. `is_hashed`: what has its name never changes."""

    body: bytes
    media_type: str
    compressed: bytes = b""
    is_hashed: bool = False


def read_files(folder: Path) -> dict[str, File]:
    """Every file under a folder by its path there; none where there is no folder. No hidden ones, and no links."""
    bodies = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not _is_hidden(path.relative_to(folder))
    }
    return {
        name: File(body, _kind(name), _of_the_same(body, bodies.get(name + _COMPRESSED, b"")), _is_hashed(name))
        for name, body in bodies.items()
        if name.removesuffix(_COMPRESSED) == name or name.removesuffix(_COMPRESSED) not in bodies
    }


def takes_gzip(accept_encoding: str) -> bool:
    """Whether who sends this can be sent gzip: named, or meant by a star, and not with a weight of nothing."""
    named: dict[str, bool] = {}
    for one in accept_encoding.lower().split(","):
        name, _, weight = one.partition(";")
        named[name.strip()] = not _NOTHING.fullmatch(weight)
    return named.get("gzip", named.get("*", False))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _kind(name: str) -> str:
    return _KINDS.get(PurePosixPath(name).suffix, _UNKNOWN_KIND)


def _is_hashed(name: str) -> bool:
    return _HASHED.fullmatch(name) is not None


def _of_the_same(body: bytes, compressed: bytes) -> bytes:
    """A compressed file that a build left behind is of other bytes: its end says of which."""
    told = (zlib.crc32(body), len(body))
    is_same = len(compressed) > _TRAILER.size and _TRAILER.unpack(compressed[-_TRAILER.size :]) == told
    return compressed if is_same else b""
