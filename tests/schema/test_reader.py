"""The reader: any spelling of a value, in any notation and cut anywhere, comes out as one JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule.schema.notation import JSON, KEYWORDS, OBJECT, PYTHON, Container, Notation, token_quoted
from ferrule.schema.reader import MAX_DEPTH, Reader, respell
from schema.json_values import cut, cut_places, json_values

SPELLINGS: list[dict[str, Any]] = [
    {},
    {"indent": 2},
    {"indent": "\t", "ensure_ascii": False},
    {"separators": (",", ":")},
    {"separators": (" \r\n, ", " : "), "ensure_ascii": False},
    {"sort_keys": True},
]


def read_pieces(pieces: Iterable[str], notation: Notation = JSON, root: Container | None = None) -> tuple[Reader, str]:
    """Read a text piece by piece as the parser does: keep only what the reader did not pass over."""
    reader = Reader(notation, root)
    out: list[str] = []
    kept = ""
    for piece in pieces:
        kept += piece
        kept = kept[reader.read(kept, 0, False) :]
        out.append(reader.take())
    reader.read(kept, 0, True)
    out.append(reader.take())
    return reader, "".join(out)


def verdict(reader: Reader, out: str) -> tuple[bool, bool, str, str]:
    return reader.is_done, reader.is_bad, reader.problem, out


@given(json_values, st.sampled_from(SPELLINGS), cut_places)
def test_any_spelling_of_any_value_cut_anywhere_is_the_one_json_text(
    value: object, spelling: dict[str, Any], places: list[int]
) -> None:
    reader, out = read_pieces(cut(json.dumps(value, **spelling), places))
    assert reader.is_done
    assert out == json.dumps(value, ensure_ascii=False, sort_keys=spelling.get("sort_keys", False))


@given(json_values, st.sampled_from(SPELLINGS))
def test_respell_is_the_same_in_one_go(value: object, spelling: dict[str, Any]) -> None:
    text = json.dumps(value, **spelling)
    assert respell(f" \n{text}\t ") == respell(text) == json.dumps(json.loads(text), ensure_ascii=False)


@given(json_values, st.booleans())
def test_what_came_out_so_far_is_always_a_prefix_of_the_whole(value: object, escape: bool) -> None:
    text = json.dumps(value, ensure_ascii=escape)
    final = json.dumps(value, ensure_ascii=False)
    for end in range(len(text)):
        reader = Reader()
        reader.read(text[:end], 0, False)
        assert final.startswith(reader.take())


@given(st.text(alphabet=st.characters(), max_size=6), st.text("\ud83d\ude00a\\", max_size=6))
def test_escaped_surrogates_cut_anywhere_mean_what_they_mean_uncut(plain: str, halves: str) -> None:
    text = json.dumps([plain + halves])
    for at in range(len(text) + 1):
        reader, out = read_pieces([text[:at], text[at:]])
        assert reader.is_done
        assert json.loads(out) == json.loads(text)


@pytest.mark.parametrize("at", range(len(r'"\ud83d\ude00"') + 1))
def test_a_surrogate_pair_cut_anywhere_is_one_character(at: int) -> None:
    text = r'"\ud83d\ude00"'
    assert read_pieces([text[:at], text[at:]])[1] == '"😀"'


@pytest.mark.parametrize("text", [r'"\ud83d"', r'"\ude00"', r'"\ud83dx"', r'"\ud83d\n"', r'"\ude00\ud83d"'])
def test_half_a_surrogate_pair_stays_an_escape_because_it_has_no_utf8(text: str) -> None:
    _, out = read_pieces(list(text))
    assert out == text
    out.encode()


@given(st.text('{}[]",:0123456789-+.eE truefalsn\\u\n', max_size=16), cut_places)
@example('{"a": 1, "\\u0061": 2}', [])
@example("1e999", [2])
def test_text_that_is_nearly_json_never_raises_and_reads_as_the_strict_reader_reads_it(
    text: str, places: list[int]
) -> None:
    whole = verdict(*read_pieces([text]))
    assert verdict(*read_pieces(cut(text, places))) == whole
    assert verdict(*read_pieces(text)) == whole
    try:
        wanted = json.loads(text, strict=False, object_pairs_hook=without_duplicates)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            respell(text)
        return
    assert json.loads(respell(text)) == wanted


def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


NOTATIONS = [JSON, PYTHON, token_quoted("<|q|>")]
fragments = st.sampled_from(["<|q|>", "<|", "'", '"', "\\", "\\x4", "\\u12", "\\U0001f600", "\\17", "{", "}", "(", ")"])


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda notation: notation.name)
@given(pieces=st.lists(st.one_of(fragments, st.sampled_from(list("[],:=1a \n")), st.text(max_size=2)), max_size=10))
def test_junk_in_any_notation_never_raises_and_reads_the_same_however_it_is_cut(
    notation: Notation, pieces: list[str]
) -> None:
    text = "".join(pieces)
    for root in (None, OBJECT, KEYWORDS):
        whole = verdict(*read_pieces([text], notation, root))
        assert verdict(*read_pieces(pieces, notation, root)) == whole
        assert verdict(*read_pieces(text, notation, root)) == whole


@pytest.mark.parametrize(
    "text, problem",
    [
        ("nul", "'nul' is not a value"),
        ("True", "is not a value"),
        ("NaN", "is not a value"),
        ("01", "is not a value"),
        ("+1", "is not a value"),
        (".5", "is not a value"),
        ("1.", "is not a value"),
        ("'a'", "does not start a value"),
        ("[1,]", "does not start a value"),
        ("[1 2]", "expected ',' or ']'"),
        ("[1}", "expected ',' or ']'"),
        ("{a: 1}", "expected a quoted key"),
        ('{"a": 1,}', "expected a quoted key"),
        ('{"a" 1}', "expected ':' after a key"),
        ('{"a" = 1}', "expected ':' after a key"),
        (r'"\x41"', "bad escape"),
        (r'"\u12g4"', "bad escape"),
        ("]", "does not start a value"),
    ],
)
def test_a_bad_text_is_bad_and_says_why(text: str, problem: str) -> None:
    reader, _ = read_pieces(list(text))
    assert reader.is_bad
    assert not reader.is_done
    assert problem in reader.problem
    with pytest.raises(ValueError, match=r"."):
        respell(text)


@pytest.mark.parametrize("text", ["", "  ", "[", '{"a"', '{"a":', '"abc', r'"\u00', "[1,"])
def test_a_text_that_breaks_off_is_neither_done_nor_taken_for_a_value(text: str) -> None:
    reader = Reader()
    reader.read(text, 0, False)
    assert not reader.is_done
    assert not reader.is_bad
    with pytest.raises(ValueError, match=r"."):
        respell(text)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', r'{"a": 1, "\u0061": 2}', '[{"": 1, "": 2}]'])
def test_a_key_that_is_there_twice_is_bad_however_it_is_spelled(text: str) -> None:
    reader, _ = read_pieces([text])
    assert reader.is_bad
    assert "twice" in reader.problem


@given(
    st.recursive(
        st.integers() | st.text(max_size=3), lambda v: st.lists(st.tuples(st.sampled_from("ab"), v)), max_leaves=8
    )
)
def test_below_the_strict_depth_the_first_of_equal_keys_stands(value: object) -> None:
    text, repeated = _with_repeats({"a": value} if not isinstance(value, list) else value)
    for size in (1, 3, len(text)):
        reader = Reader(strict_depth=0)
        at, out, given = 0, "", ""
        for start in range(0, len(text), size):
            given += text[start : start + size]
            at = reader.read(given, at, start + size >= len(text))
            out += reader.take()
        assert reader.is_done
        assert json.loads(out) == json.loads(text, object_pairs_hook=_first)
        assert bool(reader.repeated) == repeated


def test_the_same_key_in_two_objects_is_fine() -> None:
    assert respell('[{"a": {"a": 1}}, {"a": 2}]') == '[{"a": {"a": 1}}, {"a": 2}]'


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_depth_is_limited(pair: str) -> None:
    inner = '{"a":' if pair == "{}" else "["
    at_limit = inner * (MAX_DEPTH - 1) + pair + pair[1] * (MAX_DEPTH - 1)
    assert read_pieces([at_limit])[0].is_done
    reader, _ = read_pieces([inner * MAX_DEPTH + pair])
    assert reader.is_bad
    assert str(MAX_DEPTH) in reader.problem


@given(st.text("\x00\x01\t\n\r\x1fab", max_size=8), cut_places)
def test_raw_control_characters_in_a_string_come_out_escaped(inside: str, places: list[int]) -> None:
    reader, out = read_pieces(cut(f'"{inside}"', places))
    assert reader.is_done
    assert out == json.dumps(inside)


@pytest.mark.parametrize(
    "text, json_text",
    [
        ("[1,]", "[1]"),
        ("(1,)", "[1]"),
        ("{'a': 1,}", '{"a": 1}'),
        ("[[1,], 2, ]", "[[1], 2]"),
        ("{'a': {'b': (),}, 'c': None,}", '{"a": {"b": []}, "c": null}'),
    ],
)
def test_a_trailing_comma_that_python_allows_leaves_no_trace(text: str, json_text: str) -> None:
    reader, out = read_pieces(list(text), PYTHON)
    assert reader.is_done
    assert out == json_text


@pytest.mark.parametrize("number", ["0", "-0", "1.0", "1e3", "1E+03", "-1.50", "1234567890" * 4, "1e999"])
def test_a_number_comes_out_as_it_was_written(number: str) -> None:
    assert respell(f'{{"n":{number}}}') == f'{{"n": {number}}}'


def test_reading_stops_after_the_value() -> None:
    reader = Reader()
    assert reader.read('{"a": [1]} and more', 0, False) == len('{"a": [1]}')
    assert reader.is_done


def test_a_scalar_waits_for_its_end_and_a_string_does_not() -> None:
    reader = Reader()
    reader.read("[12", 0, False)
    assert reader.take() == "["
    reader.read('3, "ab', 0, False)
    assert reader.take() == '123, "ab'


def test_with_a_root_reading_starts_inside_it() -> None:
    reader, out = read_pieces(["city='Ro", "me', days=2)"], PYTHON, KEYWORDS)
    assert reader.is_done
    assert out == '{"city": "Rome", "days": 2}'


def _with_repeats(value: object) -> tuple[str, bool]:
    """A list of pairs is an object, with as many equal keys as it has."""
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).items())
    if not isinstance(value, list):
        return json.dumps(value), False
    pairs = cast("list[tuple[str, object]]", value)
    inner = [(key, *_with_repeats(item)) for key, item in pairs]
    text = "{" + ", ".join(f'"{key}": {told}' for key, told, _ in inner) + "}"
    return text, len({key for key, _ in pairs}) < len(pairs) or any(found for *_, found in inner)


def _first(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(reversed(pairs))
