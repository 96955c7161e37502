"""Law 12: no call to a tool that is not loaded, in walks under the real mask with tools added in between."""

from __future__ import annotations

import pytest

from ferrule.formats import all_formats
from laws.growing_walks import CHOICES, WalkTally, converse

FORMATS = all_formats()


@pytest.mark.parametrize("name", FORMATS)
def test_a_walk_calls_only_tools_that_are_loaded_while_the_set_grows(name: str) -> None:
    tally = WalkTally()
    for choice in CHOICES:
        converse(FORMATS[name], choice, "bytes", f"{name} {choice}", tally, turns=3, walks=2)
    assert not tally.violations, tally.violations[0]
    assert tally.walks == 12
    assert tally.finished, "no walk came to an end"
