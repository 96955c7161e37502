from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ferrule import JsonSchema, ToolChoice, ToolDefinition
from ferrule.formats import all_formats, get_format
from ferrule.rules.rule import OneOf, Prose, Repeat, Rule, Seq, Text
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.wire.rule_builder import bind
from laws.replies import TOOLS
from sampling import sampled

CHOICES = {"auto": ToolChoice.auto(), "required": ToolChoice.required(), "one": ToolChoice.one("get_weather")}


def nodes(tag: Any) -> Iterator[dict[str, Any]]:
    """Every node of a structural tag, outermost first."""
    if isinstance(tag, dict):
        if "type" in tag:
            yield tag
        for inner in tag.values():
            yield from nodes(inner)
    elif isinstance(tag, list):
        for inner in tag:
            yield from nodes(inner)


def of_type(tag: Any, name: str) -> list[dict[str, Any]]:
    return [node for node in nodes(tag) if node["type"] == name]


@pytest.mark.parametrize("name, choice", sampled("structural tag", all_formats(), CHOICES, 1))
def test_every_format_gives_a_tag_that_is_json(name: str, choice: str) -> None:
    tag = emit_structural_tag(bind(all_formats()[name], TOOLS, CHOICES[choice]))
    assert json.loads(json.dumps(tag)) == tag
    assert tag["type"] == "structural_tag"


@pytest.mark.parametrize("name", all_formats())
def test_no_value_is_given_to_a_node_that_takes_any_white_space(name: str) -> None:
    assert not of_type(emit_structural_tag(bind(all_formats()[name], TOOLS)), "json_schema")


def test_calls_with_something_between_are_tags_that_carry_the_name() -> None:
    (calls,) = of_type(emit_structural_tag(bind(get_format("hermes"), TOOLS)), "tags_with_separator")
    assert (calls["separator"], calls["at_least_one"]) == ("\n", True)
    assert [tag["begin"] for tag in calls["tags"]] == [
        f'<tool_call>\n{{"name": "{tool.name}", "arguments": ' for tool in TOOLS
    ]
    # xgrammar would exclude an `end` from every value inside the tag.
    assert {tag["end"] for tag in calls["tags"]} == {""}


@pytest.mark.parametrize("name", all_formats())
def test_a_tool_is_written_once_even_where_text_may_come_before_it(name: str) -> None:
    tools = (ToolDefinition.build("only_here").parameter("city", JsonSchema.string(), required=True).done(),)
    text = json.dumps(emit_structural_tag(bind(all_formats()[name], tools, parallel=False)))
    required = json.dumps(emit_structural_tag(bind(all_formats()[name], tools, ToolChoice.required(), parallel=False)))
    assert text.count("only_here") == required.count("only_here")


@pytest.mark.parametrize("name", all_formats())
def test_inside_of_a_tag_no_free_text_is_repeated(name: str) -> None:
    """xgrammar refuses such a tag, because it takes the text for one without an end."""
    anything = ToolDefinition("ping", "", {"type": "object"})
    rule = bind(all_formats()[name], (anything,), ToolChoice.required())
    for tag in of_type(emit_structural_tag(rule), "tag"):
        assert not {node["type"] for node in nodes(tag)} & {"star", "plus", "repeat"}


def test_raw_text_excludes_its_closer_and_counts_its_characters() -> None:
    tool = ToolDefinition.build("say").parameter("words", {"type": "string", "maxLength": 7}, required=True).done()
    tag = emit_structural_tag(bind(get_format("qwen_xml"), (tool,), ToolChoice.required(), parallel=False))
    (words,) = (node for node in of_type(tag, "any_text") if "max_chars" in node)
    assert (words["excludes"], words["max_chars"]) == (["</parameter>"], 7)


def test_an_excluded_text_that_holds_another_is_left_out() -> None:
    tag = emit_structural_tag(Rule(Prose(("<a><b>", "<a>", "x<a>"))))
    assert tag["format"]["excludes"] == ["<a>"]


def test_a_marker_that_overlaps_itself_ends_text_where_the_parser_would_see_it() -> None:
    tag = emit_structural_tag(Rule(Seq((Prose(("```",)), Text("```json")))))
    assert not of_type(tag, "any_text")
    assert "grammar" in [node["type"] for node in nodes(tag)]


@pytest.mark.parametrize(
    "bounds, name, rest",
    [
        ((0, 1), "optional", {}),
        ((0, None), "star", {}),
        ((1, None), "plus", {}),
        ((2, None), "repeat", {"min": 2, "max": -1}),
        ((2, 3), "repeat", {"min": 2, "max": 3}),
    ],
)
def test_a_repetition_has_the_node_for_its_bounds(
    bounds: tuple[int, int | None], name: str, rest: dict[str, int]
) -> None:
    tag = emit_structural_tag(Rule(Repeat(Text("a"), *bounds)))
    assert tag["format"] == {"type": name, "content": {"type": "const_string", "value": "a"}, **rest}


def test_a_bounded_repetition_keeps_its_separator() -> None:
    tag = emit_structural_tag(Rule(Repeat(OneOf((Text("a"), Text("b"))), 1, 3, ", ")))
    first, others = tag["format"]["elements"]
    assert others == {"type": "repeat", "min": 0, "max": 2, "content": others["content"]}
    assert others["content"]["elements"] == [{"type": "const_string", "value": ", "}, first]
