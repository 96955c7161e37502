"""The tool whose effects are counted. Each effect is one line of a file, which outlives the process."""

import os
import signal
from pathlib import Path

from ferrule import tool

EFFECTS = "RETRIES_EFFECTS"
"""The environment variable with the file's path."""


@tool(side_effects=True)
def pay(number: int, fault: str) -> str:
    """Pay an invoice."""
    path = Path(os.environ[EFFECTS])
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{number}\n")
        file.flush()
        os.fsync(file.fileno())
    if fault == "killed in the effect":
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


TOOLS = [pay]
