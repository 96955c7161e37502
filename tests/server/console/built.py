"""A console as a build leaves it, made of a few bytes."""

from __future__ import annotations

import gzip
from pathlib import Path

PAGE = b"<!doctype html><title>Ferrule</title>" + b"<p>of the page</p>" * 50
SCRIPT = b"export const answer = 42;\n" * 50
MARK = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
SCRIPT_PATH = "assets/index-Dk3fQ9_x.js"


def built(folder: Path) -> Path:
    """The folder, with a page, a hashed script and a picture, of which the picture is not worth compressing."""
    made = folder / "static"
    (made / "assets").mkdir(parents=True)
    for name, body in {"index.html": PAGE, SCRIPT_PATH: SCRIPT, "mark.svg": MARK}.items():
        (made / name).write_bytes(body)
    for name, body in {"index.html": PAGE, SCRIPT_PATH: SCRIPT}.items():
        (made / f"{name}.gz").write_bytes(gzip.compress(body))
    return made
