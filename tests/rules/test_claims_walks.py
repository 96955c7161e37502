"""What a receipt claims as enforced holds: random walks under the real mask never break a claimed keyword."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import llguidance
import pytest

from ferrule import ToolChoice, ToolDefinition
from ferrule.errors import FerruleError
from ferrule.formats import get_format, parse
from ferrule.rules.claims import claims_of
from ferrule.rules.lark import emit_lark
from ferrule.schema.admission import admit
from ferrule.wire.format import encoding_of
from ferrule.wire.rule_builder import bind
from laws.test_rule_protects import repeats_a_key
from rules.vocabularies import tokenizer
from rules.walks import walk

FORMATS = ("hermes", "qwen_xml", "pythonic", "glm45")
SCHEMAS = 80
WALKS = 3


def random_schema(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema as tools have them, with the keywords that no grammar expresses among the others."""
    kinds = [_string, _number, _choice, _short]
    if depth < 2:
        kinds += [_array, _object, _object]
    schema = rng.choice(kinds)(rng, depth)
    if rng.random() < 0.2:
        schema["not"] = rng.choice([{"type": "null"}, {"minLength": 3}, {"minimum": 50}, {"maxItems": 1}])
    if rng.random() < 0.15:
        schema |= {"if": {"minLength": 3, "minimum": 3}, "then": {"maxLength": 2, "maximum": 9}}
    return {"anyOf": [schema, _short(rng, depth)]} if rng.random() < 0.15 else schema


def _string(rng: random.Random, depth: int) -> dict[str, Any]:
    low = rng.randint(0, 3)
    return rng.choice(
        [
            {"type": "string", "maxLength": 6},
            {"type": "string", "minLength": low, "maxLength": low + 3},
            {"type": "string", "pattern": "^[a-c]{1,4}$"},
            {"type": "string", "format": "date"},
        ]
    )


def _number(rng: random.Random, depth: int) -> dict[str, Any]:
    return {"type": rng.choice(["integer", "number"]), "minimum": rng.randint(-9, 9), "maximum": rng.randint(10, 99)}


def _choice(rng: random.Random, depth: int) -> dict[str, Any]:
    return {"enum": rng.sample(["a", "b c", 'q"t', "é", 1, -3, 1.5, True, None], 3)}


def _short(rng: random.Random, depth: int) -> dict[str, Any]:
    return {"type": rng.choice(["boolean", "null"])}


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    schema = {"type": "array", "items": random_schema(rng, depth + 1), "maxItems": rng.randint(1, 4)}
    if rng.random() < 0.4:
        schema["uniqueItems"] = True
    if rng.random() < 0.3:
        schema["contains"] = random_schema(rng, depth + 1)
    return schema


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(["a", "b", "city", "name"], rng.randint(1, 3))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: random_schema(rng, depth + 1) for name in names},
        "required": rng.sample(names, rng.randint(0, len(names))),
        "additionalProperties": False,
    }
    if rng.random() < 0.2:
        schema["propertyNames"] = {"minLength": 2}
    if rng.random() < 0.3:
        schema["additionalProperties"] = random_schema(rng, depth + 1)
    if rng.random() < 0.15:
        schema["patternProperties"] = {"^[a-m]": random_schema(rng, depth + 1)}
    return schema


def broken_keywords(error: Any) -> Iterator[str]:
    """The keywords to blame for an error: in a union, those of its branches."""
    if error.context:
        for inner in error.context:
            yield from broken_keywords(inner)
    else:
        yield str(error.validator)


@pytest.mark.parametrize("name", FORMATS)
def test_no_claimed_keyword_is_broken(name: str) -> None:
    rng, form = random.Random(f"claims of {name}"), get_format(name)
    vocabulary, llg_tokenizer = tokenizer("bytes")
    finished = 0
    for _ in range(SCHEMAS):
        try:
            tool = ToolDefinition("f", "", admit(_object(rng, 0)))
            grammar = emit_lark(bind(form, [tool], ToolChoice.required(), parallel=False), vocabulary.specials)
        except FerruleError:
            # A schema that no value fits, or that the format cannot spell, is refused before anything is generated.
            continue
        claims = claims_of(tool, encoding_of(form))
        validator: Any = jsonschema.Draft202012Validator(tool.parameters)
        matcher = llguidance.LLMatcher(llg_tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0)
        for _ in range(WALKS):
            result = walk(vocabulary, matcher, rng)
            if not result.is_finished:
                continue
            finished += 1
            for call in parse(form, result.text, [tool]).calls:
                for error in validator.iter_errors(call.arguments):
                    blamed = {*broken_keywords(error)}
                    is_excused = repeats_a_key(error.instance) or not blamed <= {*claims.enforced}
                    assert is_excused, f"{error.message} in {result.text!r} under {tool.parameters}"
    assert finished > SCHEMAS
