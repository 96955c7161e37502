"""The files of the console's build, read once at startup. A request is a dictionary lookup and never opens a file.

A path that leads out of the folder is therefore simply not found. Must not know routes.
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
"""The folder of files whose names contain a hash of their content."""
_HASHED = re.compile(re.escape(ASSETS) + r"[\w.-]*-[\w-]{8,}\.[a-z0-9]+")
_COMPRESSED = ".gz"
_TRAILER = struct.Struct("<II")
# Not `mimetypes`: it depends on the machine, and browsers do not run scripts with a wrong type.
_MEDIA_TYPES: Mapping[str, str] = {
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
_DEFAULT_MEDIA_TYPE = "application/octet-stream"
_ZERO_WEIGHT = re.compile(r"\s*q\s*=\s*0(?:\.0*)?\s*")


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A static file. `compressed` is its gzip form, or empty. `is_hashed`: its content never changes."""

    body: bytes
    media_type: str
    compressed: bytes = b""
    is_hashed: bool = False


def read_files(folder: Path) -> dict[str, StaticFile]:
    """Read every file below a folder, by relative path. Skips hidden files and symbolic links."""
    bodies = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not _is_hidden(path.relative_to(folder))
    }
    return {
        name: StaticFile(
            body, _media_type(name), _matching_gzip(body, bodies.get(name + _COMPRESSED, b"")), _is_hashed(name)
        )
        for name, body in bodies.items()
        if name.removesuffix(_COMPRESSED) == name or name.removesuffix(_COMPRESSED) not in bodies
    }


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header accepts gzip: by name or by `*`, with a weight above 0."""
    accepted: dict[str, bool] = {}
    for one in accept_encoding.lower().split(","):
        name, _, weight = one.partition(";")
        accepted[name.strip()] = not _ZERO_WEIGHT.fullmatch(weight)
    return accepted.get("gzip", accepted.get("*", False))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _media_type(name: str) -> str:
    return _MEDIA_TYPES.get(PurePosixPath(name).suffix, _DEFAULT_MEDIA_TYPE)


def _is_hashed(name: str) -> bool:
    return _HASHED.fullmatch(name) is not None


def _matching_gzip(body: bytes, compressed: bytes) -> bytes:
    """The compressed file if its trailer matches `body`, else empty: an older build may have left another one."""
    trailer = (zlib.crc32(body), len(body))
    is_same = len(compressed) > _TRAILER.size and _TRAILER.unpack(compressed[-_TRAILER.size :]) == trailer
    return compressed if is_same else b""
