"""A tool's result for an API that takes text and has no field for an error, so that it is said in words."""

from __future__ import annotations

from ferrule.core.call import ToolResult

_PREFIX = "Error: "


def result_text(result: ToolResult) -> str:
    text = result.text
    return _PREFIX + text if result.is_error and not text.lower().startswith("error") else text
