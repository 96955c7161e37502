"""A value with partial markers and a counted length: the matcher does not give up and accepts it."""

from __future__ import annotations

import pytest

from ferrule import FunctionCall, Reply, ToolCall, ToolChoice, ToolDefinition
from ferrule.core.json_text import dumps
from ferrule.formats import all_formats, get_format
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import compile_matcher
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind

TEXT = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 460}}, "required": ["text"]}
TOOL = ToolDefinition("write", "", TEXT)
PARTIAL_MARKERS = tuple(
    mark[:-1]
    for mark in (
        "</parameter>",
        "</arg_value>",
        "</tool_call>",
        "</function>",
        "<|im_end|>",
        "</think>",
        "[/TOOL_CALLS]",
    )
)
BYTES = Vocabulary([*(bytes([n]) for n in range(256)), b"<end>"], {}, 256)


@pytest.mark.parametrize("name", sorted(all_formats()))
def test_the_matcher_handles_partial_markers_in_a_counted_value(name: str) -> None:
    format = get_format(name)
    matcher = compile_matcher(BYTES, emit_lark(bind(format, [TOOL], ToolChoice.required())))
    call = ToolCall("", FunctionCall("write", dumps({"text": ";".join(PARTIAL_MARKERS)})))
    for byte_value in render(format, Reply((call,)), [TOOL]).encode():
        assert matcher.allowed_tokens()[byte_value]
        assert matcher.take(byte_value)
    assert matcher.may_end
