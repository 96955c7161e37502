"""Pins: what was agreed to, saved and read back without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import DefinitionError
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.tool_list import Listed, described
from ferrule.sources.status import Described

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


def pinned(*tools: Listed) -> Pins:
    definitions = {tool.name: tool.definition("me") for tool in tools}
    return Pins().pinned("s", definitions, {tool.definition("me"): tool.agreed("me") for tool in tools})


def test_what_was_agreed_to_is_saved_beside_its_hash_for_as_long_as_the_hash_is_pinned() -> None:
    first, second = Listed("t", "What it does.", {"type": "object"}), Listed("t", "Something \ud800 else.")
    pins = pinned(first)
    assert Pins.from_json(pins.to_json()) == pins
    assert described(pins.before("s", "t")) == Described(
        "What it does.",
        {"type": "object"},
        first.definition("me"),
        {"server": "me", "output": None, "hints": {}, "needs_task": False},
    )
    assert pins.before("s", "other") == ""
    later = Pins.from_json(pins.pinned("s", {"t": second.definition("me")}).to_json())
    assert (later.of("s", "t"), later.agreed) == (second.definition("me"), {})


@pytest.mark.parametrize("damage", ['"[]"', '"{"', "3", '"[1e999]"', "null"])
def test_a_text_that_is_not_of_its_hash_is_not_kept_and_the_hash_still_holds(damage: str) -> None:
    tool = Listed("t", "What it does.")
    pin = tool.definition("me")
    read = Pins.from_json(f'{{"version": 1, "pins": {{"s": {{"t": "{pin}"}}}}, "agreed": {{"{pin}": {damage}}}}}')
    assert (read.of("s", "t"), read.before("s", "t")) == (pin, "")
    assert Pins.from_json('{"version": 1, "pins": {}, "agreed": []}') == Pins()


@pytest.mark.parametrize("text", ["", "{", "[]", '["s", []]', '["s", ["t", "d", [], null, {}, false]]'])
def test_only_a_definition_is_shown_as_one(text: str) -> None:
    assert described(text) is None


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
