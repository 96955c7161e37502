"""The reader converts a value in any notation and form, split anywhere, to the same JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule.schema.notation import JSON, KEYWORDS, OBJECT, PYTHON, Container, Notation, token_quoted
from ferrule.schema.reader import MAX_DEPTH, Reader, normalize_json
from schema.json_values import cut_offsets, json_values, split_text

SPELLINGS: list[dict[str, Any]] = [
    {},
    {"indent": 2},
    {"indent": "\t", "ensure_ascii": False},
    {"separators": (",", ":")},
    {"separators": (" \r\n, ", " : "), "ensure_ascii": False},
    {"sort_keys": True},
]


def read_pieces(pieces: Iterable[str], notation: Notation = JSON, root: Container | None = None) -> tuple[Reader, str]:
    """Read a text in pieces as the parser does: keep only the text that the reader has not consumed."""
    reader = Reader(notation, root)
    out: list[str] = []
    pending = ""
    for piece in pieces:
        pending += piece
        pending = pending[reader.read(pending, 0, False) :]
        out.append(reader.take())
    reader.read(pending, 0, True)
    out.append(reader.take())
    return reader, "".join(out)


def verdict(reader: Reader, out: str) -> tuple[bool, bool, str, str]:
    return reader.is_done, reader.is_bad, reader.problem, out


@given(json_values, st.sampled_from(SPELLINGS), cut_offsets)
def test_any_spelling_of_any_value_cut_anywhere_is_the_one_json_text(
    value: object, spelling: dict[str, Any], places: list[int]
) -> None:
    reader, out = read_pieces(split_text(json.dumps(value, **spelling), places))
    assert reader.is_done
    assert out == json.dumps(value, ensure_ascii=False, sort_keys=spelling.get("sort_keys", False))


@given(json_values, st.sampled_from(SPELLINGS))
def test_normalize_json_gives_the_same_result_at_once(value: object, spelling: dict[str, Any]) -> None:
    text = json.dumps(value, **spelling)
    assert normalize_json(f" \n{text}\t ") == normalize_json(text) == json.dumps(json.loads(text), ensure_ascii=False)


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


@given(st.text('{}[]",:0123456789-+.eE truefalsn\\u\n', max_size=16), cut_offsets)
@example('{"a": 1, "\\u0061": 2}', [])
@example("1e999", [2])
def test_text_that_is_nearly_json_never_raises_and_reads_as_the_strict_reader_reads_it(
    text: str, places: list[int]
) -> None:
    whole = verdict(*read_pieces([text]))
    assert verdict(*read_pieces(split_text(text, places))) == whole
    assert verdict(*read_pieces(text)) == whole
    try:
        expected = json.loads(text, strict=False, object_pairs_hook=without_duplicates)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            normalize_json(text)
        return
    assert json.loads(normalize_json(text)) == expected


def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
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
        normalize_json(text)


@pytest.mark.parametrize("text", ["", "  ", "[", '{"a"', '{"a":', '"abc', r'"\u00', "[1,"])
def test_a_text_that_breaks_off_is_neither_done_nor_taken_for_a_value(text: str) -> None:
    reader = Reader()
    reader.read(text, 0, False)
    assert not reader.is_done
    assert not reader.is_bad
    with pytest.raises(ValueError, match=r"."):
        normalize_json(text)


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
def test_below_the_strict_depth_the_first_of_equal_keys_is_kept(value: object) -> None:
    text, repeated = _object_text({"a": value} if not isinstance(value, list) else value)
    for size in (1, 3, len(text)):
        reader = Reader(strict_depth=0)
        at, out, received = 0, "", ""
        for start in range(0, len(text), size):
            received += text[start : start + size]
            at = reader.read(received, at, start + size >= len(text))
            out += reader.take()
        assert reader.is_done
        assert json.loads(out) == json.loads(text, object_pairs_hook=_keep_first)
        assert bool(reader.duplicate_keys) == repeated


def test_the_same_key_in_two_objects_is_fine() -> None:
    assert normalize_json('[{"a": {"a": 1}}, {"a": 2}]') == '[{"a": {"a": 1}}, {"a": 2}]'


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_depth_is_limited(pair: str) -> None:
    inner = '{"a":' if pair == "{}" else "["
    at_limit = inner * (MAX_DEPTH - 1) + pair + pair[1] * (MAX_DEPTH - 1)
    assert read_pieces([at_limit])[0].is_done
    reader, _ = read_pieces([inner * MAX_DEPTH + pair])
    assert reader.is_bad
    assert str(MAX_DEPTH) in reader.problem


@given(st.text("\x00\x01\t\n\r\x1fab", max_size=8), cut_offsets)
def test_raw_control_characters_in_a_string_come_out_escaped(inside: str, places: list[int]) -> None:
    reader, out = read_pieces(split_text(f'"{inside}"', places))
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
    assert normalize_json(f'{{"n":{number}}}') == f'{{"n": {number}}}'


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


def _object_text(value: object) -> tuple[str, bool]:
    """A list of pairs as the text of an object, and whether some object in it has equal keys."""
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).items())
    if not isinstance(value, list):
        return json.dumps(value), False
    pairs = cast("list[tuple[str, object]]", value)
    inner = [(key, *_object_text(item)) for key, item in pairs]
    text = "{" + ", ".join(f'"{key}": {item_text}' for key, item_text, _ in inner) + "}"
    return text, len({key for key, _ in pairs}) < len(pairs) or any(has_repeats for *_, has_repeats in inner)


def _keep_first(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(reversed(pairs))
