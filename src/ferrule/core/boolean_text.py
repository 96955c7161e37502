"""Booleans in text that people write: settings, environment variables, engine options, query parameters.

What a *model* writes is not read here: there a schema decides, and only a notation's own constants are booleans
(`schema/notation.py`).
"""

from __future__ import annotations

_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def parse_boolean(text: str) -> bool:
    """Parse `true`, `1`, `yes`, `on` and their opposites, in any case. Raises `ValueError` for anything else.

    Example:
        parse_boolean("yes")  # True
        parse_boolean("Off")  # False
    """
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise ValueError(f"not a boolean: {text!r:.60}")
    return value
