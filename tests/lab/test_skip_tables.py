from __future__ import annotations

from lab.skip_tables import SkipRow, describe_difference, gain, picture, times_table, words_table


def row(mode: str, seconds: float, output: str, *pieces: str, generated: int = 10, skipped: int = 0) -> SkipRow:
    return SkipRow("e", "required", 1, mode, "q", seconds, generated, skipped, output, pieces)


ROWS = [
    row("free", 3.0, "?"),
    row("whole", 2.0, '["Paris"]', '["', "Par", "is", '"]', generated=20),
    row("skip", 1.0, '["Parma"]', '["', "Par", "ma", '"]', generated=5, skipped=15),
]


def test_a_difference_is_described_by_its_tokens() -> None:
    assert describe_difference(ROWS[1], ROWS[2]) == """after '["Par': 'is' '"]' / 'ma' '"]'"""


def test_an_answer_that_ends_before_the_other_is_described() -> None:
    assert describe_difference(row("whole", 1, "a", "a"), row("skip", 1, "ab", "a", "b")) == "after 'a': the end / 'b'"


def test_the_tables_tell_ratios_shares_and_every_difference() -> None:
    assert gain(ROWS[1:2], ROWS[2:]) == 2.0
    times, words = times_table(ROWS), words_table(ROWS)
    assert times.rows[2][-2:] == ("75%", "2.00")
    assert [line[-2:] for line in words.rows] == [("0 of 1", "0.0%")] * 2
    assert len(words.notes) == 1
    assert "1 / 2.00" in picture(ROWS)
