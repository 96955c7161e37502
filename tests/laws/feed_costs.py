"""What one feed costs: CPU seconds of the parser, and of the readers that follow it in an engine."""

from __future__ import annotations

import gc
import time

from ferrule.wire.drift import DriftReader
from ferrule.wire.format import Format
from ferrule.wire.parser import Parser
from laws.replies import TOOLS


def feed_cost(form: Format, text: str) -> float:
    """The CPU seconds that a text in one feed takes."""
    parser, drift = Parser(form, TOOLS), DriftReader(form, TOOLS)
    # A collection in the middle of the run would look at everything that the tests before it left behind.
    gc.disable()
    try:
        started = time.process_time()
        drift.read(parser.feed(text))
        drift.read(parser.close())
        drift.close()
        return time.process_time() - started
    finally:
        gc.enable()
