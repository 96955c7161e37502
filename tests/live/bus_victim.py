"""A tool that records each run, served by processes that the test kills, suspends and slows down."""

from __future__ import annotations

import os
import time

from ferrule.schema.tool_decorator import tool

PLACE, SECONDS = "VICTIM_PLACE", "VICTIM_SECONDS"


@tool(side_effects=True, bound_to=("victim.happen", "1.0"))
def happen(number: int) -> int:
    """Happens."""
    file = os.open(os.environ[PLACE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        # One write to a file in append mode is atomic, even with several writers.
        os.write(file, f"{number}\n".encode())
    finally:
        os.close(file)
    time.sleep(float(os.environ.get(SECONDS, "0")))
    return number


TOOLS = [happen]
