"""The questions of required calls, and how an answer is judged."""

from __future__ import annotations

import pytest

from lab.api_answers import Answer
from lab.required_calls.__main__ import verdict
from lab.required_calls.questions import COMBINATIONS, SAME_SCHEMA, question


def test_every_combination_of_keywords_is_asked_for() -> None:
    asked = {question(number).keywords for number in range(SAME_SCHEMA * len(COMBINATIONS))}
    assert asked == set(COMBINATIONS)


@pytest.mark.parametrize("number", range(0, 30 * SAME_SCHEMA, SAME_SCHEMA))
def test_a_schema_holds_its_keywords(number: int) -> None:
    asked = question(number)
    assert all(f"'{keyword}'" in str(asked.tool.parameters) for keyword in asked.keywords)
    assert question(number + 1).tool == asked.tool


def test_a_success_without_a_call_is_empty() -> None:
    asked = question(0)
    assert verdict(asked, Answer([], "stop")) == "empty"
    assert verdict(asked, Answer([], "length")) == "length"
    assert verdict(asked, Answer([], "error", "no_valid_call")) == "no_valid_call"
    assert verdict(asked, Answer([], "error", "overloaded")) == "other: overloaded"
    assert verdict(asked, Answer([("file", {"tags": "none"})], "tool_calls")) == "invalid"
    assert verdict(asked, Answer([("other", {})], "tool_calls")) == "invalid"
