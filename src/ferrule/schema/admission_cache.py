"""A cache of admitted schemas by JSON text: every request of a conversation sends the same schemas."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.schema.admission import admit

_CACHED = 2_048


@lru_cache(maxsize=_CACHED)
def admit_text(text: str) -> dict[str, Any]:
    """Admit the schema of a JSON text, like `admit`. The result is shared by all callers: do not modify it."""
    return cast("dict[str, Any]", admit(loads(text)))
