"""Stdin and stdout without loss: newlines are not translated, and bytes that are not UTF-8 pass through.

A model's output may end in the middle of a character. Such bytes are decoded as surrogates and written back unchanged.
It knows nothing of replies or formats.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TextIO

from ferrule.errors import DefinitionError


def prepare() -> None:
    if not sys.stdin.isatty():
        _configure(sys.stdin, encoding="utf-8", errors="surrogateescape", newline="")
    if sys.stdout.isatty():
        _configure(sys.stdout, errors="backslashreplace")
    else:
        _configure(sys.stdout, encoding="utf-8", errors="surrogateescape", newline="")


def _configure(stream: TextIO, **settings: str) -> None:
    # Only the interpreter's own streams can be reconfigured. A replacement stream already contains text.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(**settings)


def pieces(size: int | None) -> Iterator[str]:
    """Read stdin, `size` characters at a time as they arrive, or all of it at once."""
    if sys.stdin.isatty():
        print("reading from the terminal; end with Ctrl-D", file=sys.stderr)
    if size is None:
        yield sys.stdin.read()
        return
    while piece := sys.stdin.read(size):
        yield piece


def write(text: str) -> None:
    """Write text unchanged and flush. On a terminal, add a newline if it is missing."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as refusal:
        raise DefinitionError(
            f"character {refusal.start} is a lone surrogate, which UTF-8 cannot encode",
            hint="Write the whole surrogate pair, or remove it.",
        ) from refusal
    sys.stdout.write(text)
    if sys.stdout.isatty() and not text.endswith("\n"):
        sys.stdout.write("\n")
    sys.stdout.flush()


def abandon_output() -> None:
    """Discard further output, also at interpreter exit, because the reader closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
