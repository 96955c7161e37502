"""The markup around a call is measured by rendering."""

from __future__ import annotations

import pytest

from ferrule.formats import all_formats, get_format
from ferrule.wire.overhead import overhead_of


@pytest.mark.parametrize("name", sorted(all_formats()))
def test_every_format_has_something_around_a_call_and_around_an_argument(name: str) -> None:
    call, argument = overhead_of(get_format(name))
    assert call > 0
    assert argument >= len('":"')


def test_the_markers_of_tagged_arguments_are_counted() -> None:
    assert overhead_of(get_format("qwen_xml"))[1] == len("<parameter=>\n\n</parameter>\n")
