"""The text of a tool result, for APIs that have no error flag: the text itself then says that it is an error."""

from __future__ import annotations

from ferrule.core.call import ToolResult

_PREFIX = "Error: "


def result_text(result: ToolResult) -> str:
    text = result.text
    return _PREFIX + text if result.is_error and not text.lower().startswith("error") else text
