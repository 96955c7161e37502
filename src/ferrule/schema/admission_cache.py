"""Schemas that were admitted, remembered by their text: the same one comes with every request of a conversation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.schema.admission import admit

_CACHED = 2_048


@lru_cache(maxsize=_CACHED)
def admitted_text(text: str) -> dict[str, Any]:
    """The schema of a JSON text, as `admit` gives it; `SchemaError` says why it was refused. Not to be changed."""
    return cast("dict[str, Any]", admit(loads(text)))
