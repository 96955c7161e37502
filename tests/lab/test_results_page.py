from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.results_page import PageBrokenError, section, with_section, write_section

prose = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=80).filter(lambda text: "<!--" not in text)


@given(before=prose, after=prose, old=prose, new=prose)
def test_replacing_a_section_does_not_change_the_rest_of_the_page(before: str, after: str, old: str, new: str):
    first, second = section("x", "Heading", [old]), section("x", "Heading", [new])
    assert with_section(before + first + after, "x", second) == before + second + after


@given(page=prose, text=prose)
def test_writing_the_same_section_again_changes_nothing(page: str, text: str):
    once = with_section(page, "x", section("x", "Heading", [text]))
    assert with_section(once, "x", section("x", "Heading", [text])) == once


def test_two_sections_live_side_by_side():
    page = with_section("", "a", section("a", "First", ["one"]))
    page = with_section(page, "b", section("b", "Second", ["two"]))
    page = with_section(page, "a", section("a", "First", ["changed"]))
    assert page.startswith("# Results\n")
    assert "one" not in page
    assert page.index("changed") < page.index("## Second") < page.index("two")


@pytest.mark.parametrize("mark", ["start", "end"])
def test_a_page_with_one_marker_of_two_is_not_written_to(mark: str):
    with pytest.raises(PageBrokenError):
        with_section(f"text\n<!-- x:{mark} -->\nmore", "x", section("x", "Heading", []))


def test_a_page_that_is_not_there_yet_is_made(tmp_path: Path):
    page = tmp_path / "docs" / "results.md"
    write_section("x", section("x", "Heading", ["text"]), page)
    assert page.read_text(encoding="utf-8").startswith("# Results\n\n<!-- x:start -->\n\n## Heading\n\ntext")
