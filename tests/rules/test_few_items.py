"""No item, one item, two: the ends of what can be counted are admitted in every format, and no more."""

from __future__ import annotations

import pytest

from ferrule import FunctionCall, Reply, ToolCall, ToolChoice, ToolDefinition, formats, get_format
from ferrule.core.json_text import dumps
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind


@pytest.mark.parametrize("most", [0, 1, 2])
@pytest.mark.parametrize("name", sorted(formats()))
def test_arrays_and_strings_end_where_they_must(name: str, most: int) -> None:
    text = {"type": "string", "maxLength": most}
    listed = {"type": "array", "items": {"type": "string"}, "maxItems": most}
    schema = {"type": "object", "properties": {"items": listed, "text": text}, "required": ["items", "text"]}
    tool = ToolDefinition("f", "", schema)
    matcher = ByteMatcher(emit_lark(bind(get_format(name), [tool], ToolChoice.required())))
    for items, letters in ((0, 0), (most, most), (most + 1, most), (most, most + 1)):
        call = ToolCall("", FunctionCall("f", dumps({"items": ["y"] * items, "text": "q" * letters})))
        written = render(get_format(name), Reply((call,)), [tool])
        assert matcher.accepts(written) == (max(items, letters) <= most), (items, letters)
