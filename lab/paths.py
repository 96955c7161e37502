"""Paths of this checkout."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CACHE: Final = ROOT / ".cache"
"""Downloads of the scripts and raw results of measurements; never committed."""
