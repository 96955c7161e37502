"""What a choice offers the model, and that a name nobody offered is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChoiceMode, DefinitionError, ToolChoice, ToolDefinition

TOOLS = tuple(ToolDefinition(name) for name in ("find", "read", "write"))
NAMES = [tool.name for tool in TOOLS]

subsets = st.lists(st.sampled_from(NAMES), min_size=1)


@given(subsets, st.sampled_from([ChoiceMode.AUTO, ChoiceMode.REQUIRED]))
def test_an_allowed_subset_offers_exactly_its_tools_once_each_in_the_order_given(
    names: list[str], mode: ChoiceMode
) -> None:
    choice = ToolChoice.allowed(names, mode)
    assert choice.mode is mode
    assert [tool.name for tool in choice.offered(TOOLS)] == list(dict.fromkeys(names))


@given(subsets, st.text(min_size=1).filter(lambda name: name not in NAMES), st.integers(0, 5))
def test_one_unknown_name_among_known_ones_fails_and_is_named(names: list[str], unknown: str, at: int) -> None:
    with pytest.raises(DefinitionError) as refusal:
        ToolChoice.allowed([*names[:at], unknown, *names[at:]]).offered(TOOLS)
    assert str(refusal.value).endswith(f"not offered: {unknown}")
    assert refusal.value.hint == "Offered: find, read, write."


def test_auto_offers_everything_and_demands_nothing() -> None:
    assert ToolChoice.auto().mode is ChoiceMode.AUTO
    assert ToolChoice.auto().offered(TOOLS) == TOOLS
    assert ToolChoice.auto().offered(()) == ()


def test_none_offers_nothing() -> None:
    assert ToolChoice.none().mode is ChoiceMode.NONE
    assert ToolChoice.none().offered(TOOLS) == ()


def test_required_offers_everything_and_needs_something() -> None:
    assert ToolChoice.required().mode is ChoiceMode.REQUIRED
    assert ToolChoice.required().offered(TOOLS) == TOOLS
    with pytest.raises(DefinitionError, match="no tool is offered"):
        ToolChoice.required().offered(())


def test_one_offers_that_tool_and_demands_it() -> None:
    choice = ToolChoice.one("read")
    assert choice.mode is ChoiceMode.REQUIRED
    assert choice.offered(TOOLS) == (TOOLS[1],)


def test_one_of_nothing_fails() -> None:
    with pytest.raises(DefinitionError, match="read") as refusal:
        ToolChoice.one("read").offered(())
    assert refusal.value.hint == "Offered: nothing."


def test_an_empty_subset_is_an_error_and_not_everything() -> None:
    with pytest.raises(DefinitionError, match="none at all"):
        ToolChoice.allowed([]).offered(TOOLS)


def test_tools_may_come_from_any_iterable() -> None:
    assert ToolChoice.one("find").offered(tool for tool in TOOLS) == (TOOLS[0],)
