"""A minimal build of the console."""

from __future__ import annotations

import gzip
from pathlib import Path

PAGE = b"<!doctype html><title>Ferrule</title>" + b"<p>of the page</p>" * 50
SCRIPT = b"export const answer = 42;\n" * 50
LOGO = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
SCRIPT_PATH = "assets/index-Dk3fQ9_x.js"


def write_build(folder: Path) -> Path:
    """Write a page, a hashed script and an uncompressed picture, and return the folder."""
    static = folder / "static"
    (static / "assets").mkdir(parents=True)
    for name, body in {"index.html": PAGE, SCRIPT_PATH: SCRIPT, "mark.svg": LOGO}.items():
        (static / name).write_bytes(body)
    for name, body in {"index.html": PAGE, SCRIPT_PATH: SCRIPT}.items():
        (static / f"{name}.gz").write_bytes(gzip.compress(body))
    return static
