"""Where things are in this checkout."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CACHE: Final = ROOT / ".cache"
"""What the scripts fetch and what measurements write; never committed."""
