"""Hypothesis strategies for JSON values, and for ways to split a text into pieces."""

from __future__ import annotations

from hypothesis import strategies as st

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**30, 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.text(alphabet="\"'\\/\b\n\t\x00\x1f\x7f\u2028é\ud7ff😀<>|", max_size=8),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(max_size=5), json_values, max_size=4)

cut_offsets = st.lists(st.integers(0, 60), max_size=6)


def split_text(text: str, offsets: list[int]) -> list[str]:
    ends = sorted({min(offset, len(text)) for offset in offsets} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
