from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from ferrule.bench.bfcl.run import Bar, Group, render_chart

SPACE = "{http://www.w3.org/2000/svg}"
words = st.text(alphabet=st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc", "Cn")), max_size=12)
shares = st.floats(0, 1)
bars = st.builds(Bar, st.none() | shares, shares, shares, words)
groups = st.lists(st.builds(Group, words, st.tuples(bars, bars)), max_size=5)


@given(title=words, about=words, groups=groups)
def test_whatever_the_words_are_the_chart_is_xml_and_no_bar_leaves_it(
    title: str, about: str, groups: list[Group]
) -> None:
    root = ElementTree.fromstring(render_chart(title, about, ["a", "b"], groups))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    drawn = [one for one in root.iter(f"{SPACE}rect") if one.get("height") != "10"]
    assert len(drawn) == sum(bar.share is not None for group in groups for bar in group.bars)
    for one in drawn:
        assert 0 <= float(one.attrib["width"]) <= width - float(one.attrib["x"])
        assert float(one.attrib["y"]) + float(one.attrib["height"]) <= height


def test_the_chart_has_colours_for_a_dark_page_too() -> None:
    assert "prefers-color-scheme: dark" in render_chart("t", "", ["a"], [])
