"""Pins: they are saved and read back without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import DefinitionError
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.tool_list import ListedTool, snapshot_of
from ferrule.sources.status import ToolSnapshot

texts = st.text(max_size=10)


@given(st.dictionaries(texts, st.dictionaries(texts, texts, max_size=3), max_size=3))
def test_pins_come_back_as_they_were_saved(entry: dict[str, dict[str, str]]) -> None:
    assert Pins.from_json(Pins(entry).to_json()) == Pins(entry)


def test_what_is_pinned_has_changed_only_when_it_is_another() -> None:
    pins = Pins().pin("s", {"a": "1"}).pin("s", {"b": "2"}).pin("t", {"a": "3"})
    assert pins.of("s", "a") == "1"
    assert not pins.has_changed("s", "a", "1")
    assert pins.has_changed("s", "a", "2")
    assert not pins.has_changed("s", "new", "2")
    assert not pins.pin("s", {"a": "2"}).has_changed("s", "a", "2")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 2, "pins": {}}', '{"version": 1, "pins": {"s": 1}}']
)
def test_pins_that_cannot_be_read_are_never_taken_for_none(text: str) -> None:
    with pytest.raises(DefinitionError, match="pins"):
        Pins.from_json(text)


def pins_of(*tools: ListedTool) -> Pins:
    definitions = {tool.name: tool.fingerprint("me") for tool in tools}
    return Pins().pin("s", definitions, {tool.fingerprint("me"): tool.pinned_text("me") for tool in tools})


def test_what_was_agreed_to_is_saved_beside_its_hash_for_as_long_as_the_hash_is_pinned() -> None:
    first, second = ListedTool("t", "What it does.", {"type": "object"}), ListedTool("t", "Something \ud800 else.")
    pins = pins_of(first)
    assert Pins.from_json(pins.to_json()) == pins
    assert snapshot_of(pins.pinned_text("s", "t")) == ToolSnapshot(
        "What it does.",
        {"type": "object"},
        first.fingerprint("me"),
        {"server": "me", "output": None, "hints": {}, "needs_task": False},
    )
    assert pins.pinned_text("s", "other") == ""
    later = Pins.from_json(pins.pin("s", {"t": second.fingerprint("me")}).to_json())
    assert (later.of("s", "t"), later.texts) == (second.fingerprint("me"), {})


@pytest.mark.parametrize("damage", ['"[]"', '"{"', "3", '"[1e999]"', "null"])
def test_a_text_that_is_not_of_its_hash_is_not_kept_and_the_hash_still_holds(damage: str) -> None:
    tool = ListedTool("t", "What it does.")
    pin = tool.fingerprint("me")
    read = Pins.from_json(f'{{"version": 1, "pins": {{"s": {{"t": "{pin}"}}}}, "agreed": {{"{pin}": {damage}}}}}')
    assert (read.of("s", "t"), read.pinned_text("s", "t")) == (pin, "")
    assert Pins.from_json('{"version": 1, "pins": {}, "agreed": []}') == Pins()


@pytest.mark.parametrize("text", ["", "{", "[]", '["s", []]', '["s", ["t", "d", [], null, {}, false]]'])
def test_only_a_definition_is_shown_as_one(text: str) -> None:
    assert snapshot_of(text) is None


BEFORE = ListedTool("t", "What it does.", {"type": "object"}, {"type": "object"}, {"readOnlyHint": True})


@pytest.mark.parametrize(
    "after",
    [
        ListedTool("u", "What it does.", {"type": "object"}, {"type": "object"}, {"readOnlyHint": True}),
        ListedTool("t", "What it did.", {"type": "object"}, {"type": "object"}, {"readOnlyHint": True}),
        ListedTool("t", "What it does.", {"type": "object", "x": 1}, {"type": "object"}, {"readOnlyHint": True}),
        ListedTool("t", "What it does.", {"type": "object"}, None, {"readOnlyHint": True}),
        ListedTool("t", "What it does.", {"type": "object"}, {"type": "object"}, {}),
    ],
)
def test_a_definition_is_another_when_anything_about_the_tool_or_its_server_is(after: ListedTool) -> None:
    assert BEFORE.fingerprint("s") != after.fingerprint("s")
    assert BEFORE.fingerprint("s") != BEFORE.fingerprint("other")
    assert BEFORE.fingerprint("s") == ListedTool(*(getattr(BEFORE, name) for name in ListedTool.__slots__)).fingerprint(
        "s"
    )
