"""JSON text: strict both ways, one spelling out, and a fingerprint that only the meaning changes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import canonical, dumps, escape_text, fingerprint, loads, value_at
from schema.json_values import json_objects, json_values


@given(json_values)
def test_what_is_written_reads_back(value: object) -> None:
    assert loads(dumps(value)) == value
    assert loads(canonical(value)) == value


@given(json_values)
def test_the_spelling_is_the_one_of_chat_templates(value: object) -> None:
    assert dumps(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("write", [dumps, canonical, fingerprint])
def test_what_is_not_a_json_number_is_not_written(write: Any, value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write({"deep": [value]})


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a": [NaN]}'])
def test_what_is_not_a_json_number_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        loads(text)


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[1,]", "01", "1 2", '"\n"', "True"])
def test_what_is_nearly_json_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text)


@given(json_objects, st.randoms(use_true_random=False))
def test_a_fingerprint_ignores_the_order_of_keys(value: dict[str, Any], random: Any) -> None:
    keys = list(value)
    random.shuffle(keys)
    assert fingerprint({key: value[key] for key in keys}) == fingerprint(value)


@given(json_values, json_values)
def test_fingerprints_are_equal_exactly_where_the_canonical_texts_are(a: object, b: object) -> None:
    assert (fingerprint(a) == fingerprint(b)) is (canonical(a) == canonical(b))


def test_a_fingerprint_tells_types_apart() -> None:
    assert len({fingerprint(value) for value in (1, 1.0, True, "1", [1], None, "null")}) == 7


def test_a_fingerprint_is_short_and_the_same_tomorrow() -> None:
    assert fingerprint({"b": [1, "é"], "a": None}) == "f8f17faab95c0248"


def test_half_a_surrogate_pair_has_a_fingerprint() -> None:
    assert fingerprint("\ud83d") != fingerprint("\ude00")


@given(st.text())
def test_the_inside_of_a_string_is_what_stands_between_its_quotes(text: str) -> None:
    assert f'"{escape_text(text)}"' == dumps(text)


@given(json_values, json_values)
def test_a_value_is_read_where_it_begins_as_far_as_it_goes(before: object, value: object) -> None:
    start = len(canonical(before)) + 1
    text = f"{canonical(before)},{canonical(value)}"
    assert value_at(f"{text},", start) == (value, len(text))
    with pytest.raises(ValueError, match=r"."):
        value_at(text, len(text))
