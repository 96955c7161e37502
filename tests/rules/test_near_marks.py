"""A value that nearly holds a mark, under a counted length: the matcher neither gives up nor lets the mark through."""

from __future__ import annotations

import pytest

from ferrule import FunctionCall, Reply, ToolCall, ToolChoice, ToolDefinition, formats, get_format
from ferrule.core.json_text import dumps
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import compile_matcher
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind

TEXT = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 460}}, "required": ["text"]}
TOOL = ToolDefinition("write", "", TEXT)
NEARLY = tuple(
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


@pytest.mark.parametrize("name", sorted(formats()))
def test_no_mask_is_given_up_on_where_a_mark_is_nearly_complete(name: str) -> None:
    format = get_format(name)
    matcher = compile_matcher(BYTES, emit_lark(bind(format, [TOOL], ToolChoice.required())))
    call = ToolCall("", FunctionCall("write", dumps({"text": ";".join(NEARLY)})))
    for byte in render(format, Reply((call,)), [TOOL]).encode():
        assert matcher.allowed()[byte]
        assert matcher.take(byte)
    assert matcher.may_end
