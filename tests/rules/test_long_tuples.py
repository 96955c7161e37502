"""Arrays with many items by place: the rule is not nested as deeply as the array is long."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from rules.gbnf_acceptor import Acceptor
from rules.test_additional_properties import rule_of, text_of


@pytest.mark.parametrize("name", ["hermes", "qwen_xml", "pythonic"])
def test_a_thousand_items_by_place_are_admitted(name: str) -> None:
    items: list[Any] = [{"type": "integer"}] * 1000
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "array", "prefixItems": items}}}
    rule = rule_of(name, schema)
    lark, gbnf = ByteMatcher(emit_lark(rule)), Acceptor(emit_gbnf(rule).text)
    for size in (0, 1, 15, 16, 17, 40, 1001):
        text = text_of(name, schema, {"a": [7] * size})
        assert lark.accepts(text), size
        assert gbnf.accepts(text), size
    assert not lark.accepts(text_of(name, {"type": "object"}, {"a": [7] * 20 + [True]}))
