"""Limits of zero, one and two items or characters are enforced exactly in every format."""

from __future__ import annotations

import pytest

from ferrule import FunctionCall, Reply, ToolCall, ToolChoice, ToolDefinition
from ferrule.core.json_text import dumps
from ferrule.formats import all_formats, get_format
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind
from sampling import sampled


@pytest.mark.parametrize("name, limit", sampled("few items", sorted(all_formats()), [0, 1, 2], 1))
def test_arrays_and_strings_end_where_they_must(name: str, limit: int) -> None:
    text = {"type": "string", "maxLength": limit}
    array = {"type": "array", "items": {"type": "string"}, "maxItems": limit}
    schema = {"type": "object", "properties": {"items": array, "text": text}, "required": ["items", "text"]}
    tool = ToolDefinition("f", "", schema)
    matcher = ByteMatcher(emit_lark(bind(get_format(name), [tool], ToolChoice.required())))
    for items, letters in ((0, 0), (limit, limit), (limit + 1, limit), (limit, limit + 1)):
        call = ToolCall("", FunctionCall("f", dumps({"items": ["y"] * items, "text": "q" * letters})))
        rendered = render(get_format(name), Reply((call,)), [tool])
        assert matcher.accepts(rendered) == (max(items, letters) <= limit), (items, letters)
