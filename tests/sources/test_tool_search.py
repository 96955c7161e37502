"""A search among tools finds what fits a question, and only what may be used."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.search.tool_index import MAX_QUERY_CHARACTERS, ToolIndex
from ferrule.sources.search.tool_text import MAX_CHARACTERS, divide_words, searchable_text


def text_parameter(name: str, **schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string", **schema}}}


WEATHER = ToolDefinition("get_weather", "The weather forecast of a city.", text_parameter("city"))
MAIL = ToolDefinition("sendMail", "Sends a letter.", text_parameter("recipient", description="who gets it"))
ORDERS = ToolDefinition("orders.listOpen", "", text_parameter("status", enum=["pending", "shipped"]))
TOOLS = (WEATHER, MAIL, ORDERS)


def names(index: ToolIndex, query: str, **options: Any) -> list[str]:
    return [match.tool.name for match in index.search(query, **options)]


@pytest.mark.parametrize(
    "query, name",
    [
        ("how is the weather in Rome?", "get_weather"),
        ("FORECASTS for the cities", "get_weather"),
        ("send a letter to Ann", "sendMail"),
        ("recipient", "sendMail"),
        ("list the open orders", "orders.listOpen"),
        ("what was shipped?", "orders.listOpen"),
    ],
)
def test_a_tool_is_found_by_its_name_description_parameters_and_values(query: str, name: str) -> None:
    assert names(ToolIndex(TOOLS), query)[0] == name


def test_words_of_languages_without_spaces_are_found() -> None:
    index = ToolIndex([*TOOLS, ToolDefinition("tenki", "都市の天気予報を調べる")])
    assert names(index, "東京の天気は?")[0] == "tenki"


@pytest.mark.parametrize("query", ["", "   ", "?!*()", "xyzzy", "\x00\ud800", "AND OR NOT", '"', "text:get_weather^9"])
def test_a_query_is_text_and_never_a_query_language(query: str) -> None:
    assert set(names(ToolIndex([WEATHER, ORDERS]), query)) <= {"get_weather"}


def test_only_what_is_allowed_is_found_however_many_others_fit_better() -> None:
    forbidden = [ToolDefinition(f"weather_{number}", "weather weather weather") for number in range(500)]
    index = ToolIndex([*forbidden, WEATHER])
    assert names(index, "weather", limit=3, is_allowed=lambda tool: tool is WEATHER) == ["get_weather"]
    assert names(index, "weather", limit=3, is_allowed=lambda tool: False) == []


def test_equal_tools_come_in_the_order_of_their_names() -> None:
    same = [ToolDefinition(name, "counts sheep") for name in ("b_tool", "c_tool", "a_tool")]
    assert names(ToolIndex(same), "sheep") == ["a_tool", "b_tool", "c_tool"]


def test_one_changed_tool_is_one_change() -> None:
    index = ToolIndex(TOOLS)
    assert index.update(TOOLS) == 0
    changed = ToolDefinition("get_weather", "Counts sheep.", WEATHER.parameters)
    assert index.update((changed, MAIL, ORDERS)) == 1
    assert names(index, "sheep") == ["get_weather"]
    assert names(index, "forecast") == []
    assert index.update((MAIL, ORDERS)) == 1
    assert names(index, "sheep") == []
    assert len(index) == 2


def test_a_match_is_the_definition_of_the_last_update() -> None:
    """A tool that now has side effects reads the same, and must not be returned as it was."""
    index = ToolIndex(TOOLS)
    with_effects = ToolDefinition("sendMail", MAIL.description, MAIL.parameters, side_effects=True)
    assert index.update((WEATHER, with_effects, ORDERS)) == 0
    assert index.search("letter")[0].tool.side_effects


def test_updates_in_several_threads_wait_for_each_other() -> None:
    index = ToolIndex()
    versions = [[ToolDefinition(f"tool_{n}_{at}", f"weather {n}") for at in range(50)] for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(index.update, versions)) == [50, *[100] * 7]
    (last,) = {match.tool.name.split("_")[1] for match in index.search("weather", limit=100)}
    assert {match.tool.name for match in index.search("weather", limit=100)} == {
        tool.name for tool in versions[int(last)]
    }


@given(st.lists(st.sets(st.sampled_from(range(12)), max_size=8), max_size=5), st.randoms(use_true_random=False))
def test_after_any_changes_the_index_finds_what_a_new_one_finds(changes: list[set[int]], chance: random.Random) -> None:
    def tools(numbers: set[int]) -> list[ToolDefinition]:
        return [
            ToolDefinition(f"tool_{number}", f"does word{number % 4} " * (1 + number % 3) + f"number{number}")
            for number in chance.sample(sorted(numbers), len(numbers))
        ]

    index = ToolIndex()
    for numbers in changes:
        index.update(tools(numbers))
        fresh = ToolIndex(tools(numbers))
        for query in (*(f"word{word}" for word in range(4)), "does word1 number2"):
            for limit in (1, 3, 20):
                assert index.search(query, limit) == fresh.search(query, limit)


def test_of_equal_tools_at_the_limit_the_first_by_name_are_found() -> None:
    tools = [ToolDefinition(f"tool_{number:03}", "counts sheep") for number in range(200)]
    index = ToolIndex(tools[100:])
    index.update([*tools[50:], ToolDefinition("best", "sheep, sheep")])
    index.update([*reversed(tools), ToolDefinition("best", "sheep, sheep")])
    assert names(index, "sheep", limit=3) == ["best", "tool_000", "tool_001"]
    assert names(ToolIndex(tools), "sheep", limit=2, prior={"tool_199": 1.1}) == ["tool_199", "tool_000"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("orders.listOpen", "orders list Open"),
        ("HTTPServer_v2", "HTTP Server v2"),
        ("get-weather", "get weather"),
        ("天気", "天 気"),
    ],
)
def test_a_name_is_divided_into_words(text: str, words: str) -> None:
    assert divide_words(text).split() == words.split()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"enum": ["x" * 100_000] * 50}}},
        {"type": "object", "properties": {f"p{number}": {"description": "word " * 100} for number in range(1000)}},
        {"type": "object", "properties": True, "anyOf": {"not": "a list"}, "enum": 3},
    ],
)
def test_a_hostile_definition_costs_no_more_than_a_long_one(schema: dict[str, Any]) -> None:
    text = searchable_text(ToolDefinition("strange", "", schema))
    assert text.name == "strange"
    assert text.main.startswith("strange")
    # Division into words adds spaces, never more than one beside each character.
    assert len(text.main) + len(text.values) <= 6 * MAX_CHARACTERS


def test_a_tool_with_a_long_schema_does_not_hide_the_one_that_a_question_names() -> None:
    """A schema can repeat a word a hundred times. What the tool does is in its name and description."""
    fields = {f"field_{number}": {"type": "string", "description": "of the pod"} for number in range(100)}
    create = ToolDefinition("createVolume", "Creates a volume.", {"type": "object", "properties": fields})
    lists = ToolDefinition("listPod", "Lists or watches objects of kind Pod.", text_parameter("labelSelector"))
    assert names(ToolIndex([create, lists, *TOOLS]), "list the pods")[0] == "listPod"


def test_a_name_deep_inside_a_long_schema_is_found() -> None:
    fields: dict[str, Any] = {f"field_{number}": {"description": "some words " * 20} for number in range(50)}
    fields["field_49"]["properties"] = {"toleration": {"enum": ["NoSchedule"]}}
    tool = ToolDefinition("create", "Creates it.", {"type": "object", "properties": fields})
    for query in ("toleration", "no schedule"):
        assert names(ToolIndex([tool, *TOOLS]), query) == ["create"]


def test_words_that_every_sentence_has_find_nothing() -> None:
    assert names(ToolIndex(TOOLS), "a of the to") == []


def test_of_a_long_query_only_the_beginning_counts() -> None:
    index = ToolIndex(TOOLS)
    assert names(index, "x " * MAX_QUERY_CHARACTERS + "weather") == []


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(DefinitionError) as caught:
        ToolIndex()
    assert caught.value.code == "missing_package"
    assert "ferrule[search]" in caught.value.hint
