import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.registry import get_format
from lab import own_parser
from lab.costs import CHARACTERS, ENGINES, FORMATS, SIZES, TOOLS, source_code, tables
from lab.reply_variants import SPELLINGS
from lab.verdict import difference


@given(length=st.integers(0, 5000))
def test_the_source_code_has_the_length_asked_for_and_a_longer_one_begins_with_it(length: int):
    assert len(source_code(length)) == length
    assert source_code(length + 100).startswith(source_code(length))


def test_the_source_code_holds_what_makes_values_hard():
    assert all(mark in source_code(1000) for mark in ("\n", "\t", '"', "'", "\\", "</", "{", "]"))


@pytest.mark.parametrize("name", FORMATS)
def test_our_parser_reads_the_timed_text_rightly(name: str):
    calls = [("write_file", {"content": source_code(1000)})]
    text = SPELLINGS[name]("", calls)
    chunks = [text[start : start + CHARACTERS] for start in range(0, len(text), CHARACTERS)]
    assert difference(calls, own_parser.stream(get_format(name), chunks, own_parser.definitions(TOOLS))) == ""


def test_a_measurement_that_was_stopped_is_shown_as_stopped_and_has_no_ratio():
    rows = [
        {"format": name, "engine": engine, "size": size, "seconds": 1.0, "per_character": 2e-6, "problem": ""}
        for name in FORMATS
        for engine in ENGINES
        for size in SIZES
    ]
    rows[4] = {**rows[4], "seconds": None, "per_character": None, "problem": "over 60 s"}
    (table,) = tables({"rows": rows})
    assert table.rows[0][5] == "over 60 s"
    assert list(table.rows[0][-3:]) == ["1", "-", "1"]
    assert list(table.rows[1][-3:]) == ["1", "1", "1"]
