"""The extension: round trips, and lenient reading."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import receipts, receipts_of, streams, through_json
from ferrule import Event, fold
from ferrule.core.call import Receipt
from ferrule.dialects.extension import Extension, receipt_from


@given(streams())
def test_what_is_written_is_read_back(events: list[Event]) -> None:
    extension = Extension.of(fold(events))
    read = Extension.read(through_json(extension.as_field()))
    assert read == extension
    assert list(read.receipts.values()) == [receipt for receipt in receipts_of(fold(events)).values() if receipt]


@given(receipts)
def test_a_receipt_comes_back_from_its_dict(receipt: Receipt) -> None:
    assert receipt_from(through_json(receipt.as_dict())) == receipt


@pytest.mark.parametrize(
    "data", [{}, {"how": "grammar"}, {"how": "magic", "engine": "e", "path": "p"}, {"how": "grammar", "engine": 1}]
)
def test_what_is_no_receipt_is_none(data: dict[str, Any]) -> None:
    assert receipt_from(data) is None


def test_a_field_of_the_wrong_type_is_left_out_of_a_receipt() -> None:
    data = {"how": "grammar", "engine": "e", "path": "p", "tokens": "many", "notes": ["x", 1], "new": 1}
    receipt = receipt_from(data)
    assert receipt is not None
    assert (receipt.tokens, receipt.notes) == (0, ("x",))


def test_an_empty_extension_adds_no_field() -> None:
    assert Extension().as_field() == {}


keys = st.sampled_from(
    ["ferrule", "receipts", "incomplete", "diagnostics", "code", "index", "name", "arguments", "how"]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(keys, junk))
def test_junk_never_raises(data: dict[str, Any]) -> None:
    Extension.read({"ferrule": data})
