"""What an engine chose by itself when it was loaded: one line on stderr, so that stdout stays a program's."""

from __future__ import annotations

import sys

from ferrule.cli.terminal import printable
from ferrule.engines.engine import Engine


def print_startup_note(engine: Engine) -> None:
    if engine.startup_note:
        print(printable(engine.startup_note), file=sys.stderr)
