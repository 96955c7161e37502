from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.rule import OneOf, Prose, Repeat, Rule, Str, Text, Until, Value
from ferrule.schema.notation import JSON, JSON_QUOTE
from rules.gbnf_acceptor import Acceptor


def acceptor_for(schema: Any, excludes: tuple[str, ...] = ()) -> Acceptor:
    return Acceptor(emit_gbnf(Rule(Value(schema, schema, JSON, excludes))).text)


TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
    "additionalProperties": False,
}
CASES: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "integer"}, [0, -3, 12], [1.5, "1", None, True]),
    ({"type": ["string", "null"]}, ["", None], [1]),
    ({"enum": ["a", 1, None, {"b": []}]}, ["a", 1, None, {"b": []}], ["b", 2, {"b": [1]}]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "a\n\n", "😀😀"], ["a", "abcd"]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
    ({"anyOf": [{"type": "boolean"}, {"const": "x"}]}, [True, "x"], ["y", None]),
    (TREE, [{"name": "a"}, {"name": "a", "kids": [{"name": "b", "kids": []}]}], [{}, {"name": "a", "kids": [{}]}]),
    ({}, [1, "a", [{"b": [None]}], {"a": {}}], []),
]


@pytest.mark.parametrize("schema, fitting, others", CASES, ids=[json.dumps(case[0])[:40] for case in CASES])
def test_values_that_fit_are_admitted_and_others_are_not(schema: Any, fitting: list[Any], others: list[Any]) -> None:
    for excludes in ((), ("</end>",)):
        acceptor = acceptor_for(schema, excludes)
        assert [value for value in fitting if not acceptor.accepts(json.dumps(value, ensure_ascii=False))] == []
        assert [value for value in others if acceptor.accepts(json.dumps(value, ensure_ascii=False))] == []


def test_an_excluded_text_occurs_nowhere_in_a_value() -> None:
    acceptor = acceptor_for({}, ("</end>",))
    assert acceptor.accepts('{"a": ["</en>"]}')
    assert not acceptor.accepts('{"a": ["x</end>"]}')
    assert not acceptor.accepts('{"</end>": 1}')


@pytest.mark.parametrize(
    "definitions",
    [
        {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}},
        {
            "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]},
            "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "integer"}]},
        },
    ],
    ids=["itself", "each other"],
)
def test_a_definition_that_is_one_of_its_own_options_is_no_left_recursion(definitions: Any) -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": definitions}
    assert acceptor_for(schema).accepts("[null, null]")
    assert acceptor_for(schema).accepts("[1]") == ("b" in definitions)
    assert not acceptor_for(schema).accepts('["a"]')


@pytest.mark.parametrize("most", [513, 5000])
def test_a_length_that_llama_cpp_cannot_repeat_is_left_to_the_validator(most: int) -> None:
    for node in (Str(JSON_QUOTE, 0, most), Str(JSON_QUOTE, 0, most, None, ("zz",))):
        assert Acceptor(emit_gbnf(Rule(node)).text).accepts(json.dumps("a" * (most + 1)))
    least = Acceptor(emit_gbnf(Rule(Str(JSON_QUOTE, most, None))).text)
    assert least.accepts(json.dumps("a" * 512))
    assert not least.accepts(json.dumps("a" * 511))


def test_free_text_is_counted_only_as_far_as_the_grammar_stays_small() -> None:
    counted, uncounted = (emit_gbnf(Rule(Prose(("</end>",), at_most=most))).text for most in (40, 1000))
    assert not Acceptor(counted).accepts("a" * 41)
    assert Acceptor(uncounted).accepts("a" * 1001)
    assert len(counted) < 20_000
    assert len(uncounted) < 500


def test_the_same_free_text_is_written_once() -> None:
    text = Until("</end>", ("</end>",))
    once, twice = (emit_gbnf(Rule(Repeat(text, times, times, "!"))).text for times in (1, 2))
    assert len(twice) < len(once) + 40


def test_a_choice_without_options_admits_nothing() -> None:
    acceptor = Acceptor(emit_gbnf(Rule(OneOf(()))).text)
    assert not acceptor.accepts("")
    assert not any(acceptor.admits_beginning(char) for char in "a1\x00\U0010ffff")


def test_every_character_keeps_its_meaning_in_a_literal() -> None:
    hard = "".join(map(chr, range(1, 0x180))) + "\u2028\ufeff😀\U000e0001"
    acceptor = Acceptor(emit_gbnf(Rule(Text(hard))).text)
    assert acceptor.accepts(hard)
    assert not acceptor.accepts(hard[:-1] + "!")
    for char in hard:
        free = Acceptor(emit_gbnf(Rule(Prose((char,)))).text)
        assert not free.accepts(char)
        assert free.accepts("Z" if char != "Z" else "z")
