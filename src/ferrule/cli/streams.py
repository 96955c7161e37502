"""Standard input and output with every byte kept: no newline is translated, and bytes that are not UTF-8 go through.

A model's output may be cut in the middle of a character; such bytes travel as surrogates and are written back as they
came. It knows nothing of replies or formats.
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
    # Only the interpreter's own streams can be set; what a caller put in their place holds text already.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(**settings)


def pieces(size: int | None) -> Iterator[str]:
    """What comes in, `size` characters at a time as soon as they are there, or all of it at once."""
    if sys.stdin.isatty():
        print("reading from the terminal; end with Ctrl-D", file=sys.stderr)
    if size is None:
        yield sys.stdin.read()
        return
    while piece := sys.stdin.read(size):
        yield piece


def write(text: str) -> None:
    """Give out text exactly and at once; on a terminal the prompt after it gets a line of its own."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as refusal:
        raise DefinitionError(
            f"character {refusal.start} is half of a surrogate pair, which UTF-8 has no bytes for",
            hint="Give the other half too, or leave it out.",
        ) from refusal
    sys.stdout.write(text)
    if sys.stdout.isatty() and not text.endswith("\n"):
        sys.stdout.write("\n")
    sys.stdout.flush()


def abandon_output() -> None:
    """The reader of our output has gone: let nothing more be written, also not when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
