"""JSON written in another notation reads back, and Python itself reads the Python notations."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ferrule.schema.notation import (
    JSON,
    JSON_COMPACT,
    PYTHON,
    PYTHON_COMPACT,
    PYTHON_DOUBLE_QUOTED,
    PYTHON_JSON_OBJECTS,
    Notation,
    token_quoted,
)
from ferrule.schema.reader import Reader
from ferrule.schema.value_text import UnrepresentableError, members, write_json
from schema.json_values import cut_offsets, json_values, split_text

GEMMA = token_quoted('<|"|>')
NOTATIONS = [
    JSON,
    JSON_COMPACT,
    PYTHON,
    PYTHON_COMPACT,
    PYTHON_DOUBLE_QUOTED,
    PYTHON_JSON_OBJECTS,
    GEMMA,
    token_quoted("<escape>", quotes_inner_keys=True),
]
PYTHON_NOTATIONS = [PYTHON, PYTHON_COMPACT, PYTHON_DOUBLE_QUOTED]

bare_keys = st.text("abc_é0.-", min_size=1, max_size=4)
values_with_bare_keys = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text("ab <|\"'\\\n", max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(bare_keys, inner, max_size=3)),
    max_leaves=8,
)


def read(text: str, notation: Notation, places: list[int]) -> str:
    reader = Reader(notation)
    pending, out = "", ""
    for piece in split_text(text, places):
        pending += piece
        pending = pending[reader.read(pending, 0, False) :]
        out += reader.take()
    reader.read(pending, 0, True)
    assert reader.is_done, reader.problem
    return out + reader.take()


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda notation: notation.name)
@given(value=st.one_of(values_with_bare_keys, json_values), places=cut_offsets)
def test_written_values_read_back_however_they_are_split(notation: Notation, value: object, places: list[int]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    try:
        written = write_json(text, notation)
    except UnrepresentableError:
        # Only notations without escapes have values that they cannot represent.
        assert notation.name.startswith("token_quoted")
        return
    assert read(written, notation, places) == text


@pytest.mark.parametrize("notation", PYTHON_NOTATIONS, ids=lambda notation: notation.name)
@given(value=json_values)
def test_python_reads_the_python_notations(notation: Notation, value: object) -> None:
    assert ast.literal_eval(write_json(json.dumps(value), notation)) == value


@given(json_values, cut_offsets)
def test_the_reader_reads_what_python_prints(value: object, places: list[int]) -> None:
    assert read(repr(value), PYTHON, places) == json.dumps(value, ensure_ascii=False)


escapes = st.sampled_from(
    ["\\n", "\\t", "\\a", "\\v", "\\\\", "\\'", '\\"', "\\x41", "\\xe9", "\\u00e9", "\\U0001f600", "\\\n"]
)
# Octal escapes of three digits above \377 exceed a byte, which Python no longer supports.
octals = st.from_regex(r"\\[0-3][0-7]{0,2}", fullmatch=True)


@given(st.lists(st.one_of(escapes, octals, st.sampled_from(list("a07é "))), max_size=6), st.sampled_from("'\""))
def test_escapes_mean_what_they_mean_in_python_however_they_are_cut(pieces: list[str], quote: str) -> None:
    text = quote + "".join(pieces) + quote
    expected = json.dumps(ast.literal_eval(text), ensure_ascii=False)
    for at in range(len(text) + 1):
        assert read(text, PYTHON, [at]) == expected


@given(values_with_bare_keys)
def test_a_value_without_the_quote_mark_can_be_token_quoted(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assume('<|\\"|' not in text)
    assert read(write_json(text, GEMMA), GEMMA, []) == text


def test_a_string_that_holds_the_whole_quote_mark_is_refused() -> None:
    with pytest.raises(UnrepresentableError, match="which ends it"):
        write_json(json.dumps('a<|"|>b'), GEMMA)


@pytest.mark.parametrize("value", ['a<|"|', '<|"', '|"|>', '"'])
def test_a_piece_of_the_quote_mark_is_not_refused(value: str) -> None:
    text = json.dumps(value)
    assert read(write_json(text, GEMMA), GEMMA, []) == text


@pytest.mark.parametrize("key", ["", "a b", "a:b", "a,b", "<a", "a'"])
def test_a_key_that_cannot_stand_without_quotes_is_quoted(key: str) -> None:
    text = json.dumps({key: 1})
    assert write_json(text, GEMMA) == f'{{<|"|>{key}<|"|>:1}}'
    assert read(write_json(text, GEMMA), GEMMA, []) == text


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda notation: notation.name)
@pytest.mark.parametrize("number", ["1.0", "1e3", "-0", "1234567890" * 4])
def test_numbers_are_written_unchanged(notation: Notation, number: str) -> None:
    assert write_json(f"[{number}]", notation) == f"[{number}]"


def test_the_members_of_an_object_come_in_their_order() -> None:
    assert [key for key, _ in members('{"b": 1, "a": 2}')] == ["b", "a"]
    with pytest.raises(UnrepresentableError, match="not an object"):
        members("[1]")
