"""Which tools a choice allows, and that an unknown name is an error."""

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
    assert [tool.name for tool in choice.select_tools(TOOLS)] == list(dict.fromkeys(names))


@given(subsets, st.text(min_size=1).filter(lambda name: name not in NAMES), st.integers(0, 5))
def test_one_unknown_name_among_known_ones_fails_and_is_named(names: list[str], unknown: str, at: int) -> None:
    with pytest.raises(DefinitionError) as refusal:
        ToolChoice.allowed([*names[:at], unknown, *names[at:]]).select_tools(TOOLS)
    assert str(refusal.value).endswith(f"tool_choice names unknown tools: {unknown}")
    assert refusal.value.hint == "The request offers: find, read, write."


def test_auto_offers_everything_and_demands_nothing() -> None:
    assert ToolChoice.auto().mode is ChoiceMode.AUTO
    assert ToolChoice.auto().select_tools(TOOLS) == TOOLS
    assert ToolChoice.auto().select_tools(()) == ()


def test_none_offers_nothing() -> None:
    assert ToolChoice.none().mode is ChoiceMode.NONE
    assert ToolChoice.none().select_tools(TOOLS) == ()


def test_required_offers_everything_and_needs_something() -> None:
    assert ToolChoice.required().mode is ChoiceMode.REQUIRED
    assert ToolChoice.required().select_tools(TOOLS) == TOOLS
    with pytest.raises(DefinitionError, match="no tool is offered"):
        ToolChoice.required().select_tools(())


def test_one_offers_that_tool_and_demands_it() -> None:
    choice = ToolChoice.one("read")
    assert choice.mode is ChoiceMode.REQUIRED
    assert choice.select_tools(TOOLS) == (TOOLS[1],)


def test_one_of_nothing_fails() -> None:
    with pytest.raises(DefinitionError, match="read") as refusal:
        ToolChoice.one("read").select_tools(())
    assert refusal.value.hint == "The request offers: no tools."


def test_an_empty_subset_is_an_error_and_not_everything() -> None:
    with pytest.raises(DefinitionError, match="names no tools"):
        ToolChoice.allowed([]).select_tools(TOOLS)


def test_tools_may_come_from_any_iterable() -> None:
    assert ToolChoice.one("find").select_tools(tool for tool in TOOLS) == (TOOLS[0],)
