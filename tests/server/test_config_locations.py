"""Line numbers in a TOML file, for every way to write one."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from ferrule.server.config.file import lines_of

WORDS = st.text("abcdefgh-_", min_size=1, max_size=6)
VALUES = st.sampled_from(
    [
        "1",
        "true",
        '"a # b"',
        '["x", "y"]',
        '[\n  "x", # why\n  "y",\n]',
        '"""\n[no]\nheader = 1\n"""',
        "'''\n\n'''",
        "1.5 # so",
    ]
)
GAPS = st.sampled_from(["", "\n", "# words\n", "   \n# [no]\n\n"])
NAMES = st.lists(WORDS, unique=True, min_size=1, max_size=4)


@given(st.dictionaries(WORDS, st.tuples(GAPS, st.dictionaries(WORDS, st.tuples(GAPS, VALUES), max_size=4)), max_size=4))
def test_every_setting_is_found_on_its_own_line(tables: dict[str, tuple[str, dict[str, tuple[str, str]]]]) -> None:
    text, expected = "", dict[tuple[str, ...], int]()
    for table, (gap, settings) in tables.items():
        text += gap
        expected[table,] = text.count("\n") + 1
        text += f"[{table}]\n"
        for name, (before, value) in settings.items():
            text += before
            expected[table, name] = text.count("\n") + 1
            text += f"{name} = {value}\n"
    tomllib.loads(text)
    lines = lines_of(text)
    assert {key: lines[key] for key in expected} == expected


@given(st.lists(st.tuples(GAPS, VALUES), max_size=5))
def test_entries_of_a_list_of_tables_are_counted(entries: list[tuple[str, str]]) -> None:
    text, expected = "", dict[tuple[str | int, ...], int]()
    for at, (gap, value) in enumerate(entries):
        text += gap
        expected["keys", at] = text.count("\n") + 1
        expected["keys", at, "name"] = text.count("\n") + 2
        text += f"[[keys]]\nname = {value}\n"
    lines = lines_of(text)
    assert {key: lines[key] for key in expected} == expected


def test_dotted_keys_and_tables_within_a_line_are_found() -> None:
    lines = lines_of('\nengines.a.use = "x"\nmodels = {m = {engines = ["a"]}}\n[engines."b c"]\nuse = "y"\n')
    assert lines["engines", "a", "use"] == 2
    assert lines["models", "m", "engines"] == 3
    assert lines["engines", "b c"] == 4
    assert lines["engines", "b c", "use"] == 5
