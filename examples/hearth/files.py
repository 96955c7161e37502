"""The folder of pictures and recordings. A file name cannot lead out of it."""

from __future__ import annotations

import os
from pathlib import Path

from ferrule import ToolError

FOLDER = "HEARTH_FILES"
_MOST_BYTES = 32 * 1024 * 1024


def folder() -> Path:
    return Path(os.environ.get(FOLDER) or Path(__file__).parent / "files").resolve()


def content_of(name: str) -> bytes:
    """Read a file in the folder."""
    try:
        path = (folder() / name).resolve()
        if not path.is_relative_to(folder()) or not path.is_file():
            raise ToolError(f"there is no file {name!r}")
        if path.stat().st_size > _MOST_BYTES:
            raise ToolError(f"{name!r} is too large")
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        raise ToolError(f"there is no file {name!r}") from problem
