"""Schemas that count members: what can be satisfied is never refused, and what is not counted is not claimed."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.engines.grammar import encoding_for
from ferrule.rules.claims import claims_of
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from rules.gbnf_acceptor import Acceptor
from rules.test_additional_properties import FORMATS, rule_of, text_of, tool_of

STRING = {"type": "string"}
A_B: dict[str, Any] = {"type": "object", "properties": {"a": STRING, "b": STRING}}
NAMES = ("hermes", "qwen_xml", "glm45", "dsml_v4", "pythonic", "gemma4")
# Each schema, with a call that fits it and a call that has too few or too many members.
SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "more than is required": (
        {**A_B, "required": ["a", "b"], "minProperties": 3},
        {"a": "", "b": "", "c": 1},
        {"a": "", "b": ""},
    ),
    "more than is listed": ({**A_B, "minProperties": 3}, {"a": "", "b": "", "c": 1}, {"a": ""}),
    "one of the listed": ({**A_B, "minProperties": 1, "additionalProperties": False}, {"b": ""}, {}),
    "a map that is not empty": (
        {"type": "object", "additionalProperties": STRING, "minProperties": 1},
        {"x": "y"},
        {},
    ),
    "a small map": (
        {"type": "object", "additionalProperties": STRING, "maxProperties": 1},
        {"x": "y"},
        {"x": "y", "z": ""},
    ),
    "others up to a count": (
        {**A_B, "required": ["a", "b"], "additionalProperties": STRING, "maxProperties": 3},
        {"a": "", "b": "", "c": ""},
        {"a": "", "b": "", "c": "", "d": ""},
    ),
    "inside an argument": (
        {"type": "object", "properties": {"o": {**A_B, "required": ["a", "b"], "minProperties": 3}}, "required": ["o"]},
        {"o": {"a": "", "b": "", "c": 1}},
        {"o": {"a": "", "b": ""}},
    ),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", SCHEMAS)
def test_what_fits_is_admitted_and_a_wrong_count_is_refused_or_not_claimed(name: str, case: str) -> None:
    schema, fitting, wrong = SCHEMAS[case]
    rule = rule_of(name, schema)
    matchers = {"lark": ByteMatcher(emit_lark(rule)), "gbnf": Acceptor(emit_gbnf(rule).text)}
    for target, matcher in matchers.items():
        claims = claims_of(tool_of(schema), encoding_for(FORMATS[name], target))
        assert matcher.accepts(text_of(name, schema, fitting)), text_of(name, schema, fitting)
        if {"minProperties", "maxProperties"} & {*claims.enforced}:
            assert not matcher.accepts(text_of(name, schema, wrong)), text_of(name, schema, wrong)
