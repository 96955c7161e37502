"""A grammar names every special token of the vocabulary, whether the format declares it as a token or not."""

from __future__ import annotations

import pytest

from ferrule import ToolChoice
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import compile_matcher
from ferrule.rules.vocabulary import Vocabulary
from ferrule.schema.tool_decorator import tool
from ferrule.wire.registry import all_formats, get_format
from ferrule.wire.rule_builder import bind

ALL = {token for form in all_formats().values() for token in form.tokens}
SPECIALS = {text: 300 + number for number, text in enumerate(sorted(ALL))}


@tool
def ping(place: str) -> str:
    """Pings."""
    return place


@pytest.mark.parametrize("name", all_formats())
def test_a_marker_that_is_a_special_token_is_never_a_literal(name: str) -> None:
    grammar = emit_lark(bind(get_format(name), [ping.definition], ToolChoice.required()), SPECIALS)
    literals = [part for line in grammar.splitlines() for part in line.split('"')[1::2]]
    assert not [marker for marker in ALL if any(marker in literal for literal in literals)]


def test_generic_xml_is_written_with_the_tokens_of_a_vocabulary_that_has_them() -> None:
    specials = {"<tool_call>": 256, "</tool_call>": 257}
    vocabulary = Vocabulary(
        (*(bytes([n]) for n in range(256)), b"<tool_call>", b"</tool_call>", b"</s>"), specials, end=258
    )
    grammar = emit_lark(bind(get_format("generic_xml"), [ping.definition], ToolChoice.required()), specials)
    matcher = compile_matcher(vocabulary, grammar)
    inner = b'\n<name>ping</name>\n<arguments>{"place": "a"}</arguments>\n'
    for token in (256, *inner, 257):
        assert matcher.take(token), token
