"""Pins: what was agreed to, saved and read back without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import DefinitionError
from ferrule.sources.mcp_listing import Listed
from ferrule.sources.mcp_pins import Pins

texts = st.text(max_size=10)


@given(st.dictionaries(texts, st.dictionaries(texts, texts, max_size=3), max_size=3))
def test_pins_come_back_as_they_were_saved(held: dict[str, dict[str, str]]) -> None:
    assert Pins.from_json(Pins(held).to_json()) == Pins(held)


def test_what_is_pinned_has_changed_only_when_it_is_another() -> None:
    pins = Pins().pinned("s", {"a": "1"}).pinned("s", {"b": "2"}).pinned("t", {"a": "3"})
    assert pins.of("s", "a") == "1"
    assert not pins.changed("s", "a", "1")
    assert pins.changed("s", "a", "2")
    assert not pins.changed("s", "new", "2")
    assert not pins.pinned("s", {"a": "2"}).changed("s", "a", "2")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 2, "pins": {}}', '{"version": 1, "pins": {"s": 1}}']
)
def test_pins_that_cannot_be_read_are_never_taken_for_none(text: str) -> None:
    with pytest.raises(DefinitionError, match="pins"):
        Pins.from_json(text)


BEFORE = Listed("t", "What it does.", {"type": "object"}, {"type": "object"}, {"readOnlyHint": True})


@pytest.mark.parametrize(
    "after",
    [
        Listed("u", "What it does.", {"type": "object"}, {"type": "object"}, {"readOnlyHint": True}),
        Listed("t", "What it did.", {"type": "object"}, {"type": "object"}, {"readOnlyHint": True}),
        Listed("t", "What it does.", {"type": "object", "x": 1}, {"type": "object"}, {"readOnlyHint": True}),
        Listed("t", "What it does.", {"type": "object"}, None, {"readOnlyHint": True}),
        Listed("t", "What it does.", {"type": "object"}, {"type": "object"}, {}),
    ],
)
def test_a_definition_is_another_when_anything_about_the_tool_or_its_server_is(after: Listed) -> None:
    assert BEFORE.definition("s") != after.definition("s")
    assert BEFORE.definition("s") != BEFORE.definition("other")
    assert BEFORE.definition("s") == Listed(*(getattr(BEFORE, name) for name in Listed.__slots__)).definition("s")
