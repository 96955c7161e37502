"""The folder in which Ferrule keeps what it can make again. Must not know what is kept there."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return a folder of the user's cache. `XDG_CACHE_HOME` counts only if it is absolute, as it should be."""
    xdg_cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = xdg_cache if xdg_cache.is_absolute() else Path.home() / ".cache"
    return cache / "ferrule" / name
