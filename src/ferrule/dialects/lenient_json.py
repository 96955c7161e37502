"""Lenient access to what an engine sent: a value of the wrong type counts as missing. Nothing here raises."""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.json_text import dumps


def mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def entries(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", entry) for entry in items if isinstance(entry, dict)]


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def json_text(value: object) -> str:
    """Return arguments as JSON text, whether the engine sent a string or an object."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return dumps(value)
    except (ValueError, TypeError, RecursionError):
        # Infinity, or nesting that is too deep to encode. The repr is not JSON, so it is rejected later.
        return f"{value!r:.200}"


def message_of(error: object) -> str:
    """Return the message of an error in any of the shapes that engines send."""
    if isinstance(error, str):
        return error
    return text(mapping(error).get("message")) or "the engine sent an error without a message"
