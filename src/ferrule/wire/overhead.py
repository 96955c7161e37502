"""Measure the markup that a format adds around a call and around each argument, by rendering sample calls."""

from __future__ import annotations

from functools import lru_cache

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.json_text import dumps
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format
from ferrule.wire.renderer import render

_TOOL = ToolDefinition("f", "", {"type": "object", "properties": {name: {"type": "string"} for name in "ab"}})


@lru_cache(maxsize=256)
def overhead_of(format: Format) -> tuple[int, int]:
    """Characters of markup per call and per argument, not counting names and values."""
    two, one = (_length(format, dict.fromkeys(names, "")) for names in ("ab", "a"))
    argument = two - one - len("b")
    return one - argument - len("f") - len("a"), argument


def _length(format: Format, arguments: dict[str, str]) -> int:
    call = ToolCall("", FunctionCall(_TOOL.name, dumps(arguments)))
    return len(render(format, Reply((call,)), [_TOOL]))
