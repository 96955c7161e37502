"""Elicitation: requests are declined without a callback, and only an answer that matches the form is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.sources.mcp.elicitation import Elicit, ElicitAnswer, Elicitation, answer_to, decline

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "default": "Ann"}, "age": {"type": "integer"}},
    "required": ["name"],
}
ASKED = Elicitation("s", "Who?", FORM)


def answers(answer: ElicitAnswer) -> Elicit:
    async def elicit(question: Elicitation) -> ElicitAnswer:
        return answer

    return elicit


def answer(elicit: Elicit, question: Elicitation = ASKED) -> ElicitAnswer:
    return asyncio.run(answer_to(question, elicit))


def test_without_anybody_to_ask_it_is_declined() -> None:
    assert answer(decline) == ElicitAnswer("decline")


@pytest.mark.parametrize(
    "content, expected",
    [({}, {"name": "Ann"}), ({"name": "Bob"}, {"name": "Bob"}), ({"age": 3}, {"name": "Ann", "age": 3})],
)
def test_defaults_of_the_form_are_filled_in(content: dict[str, Any], expected: dict[str, Any]) -> None:
    assert answer(answers(ElicitAnswer("accept", content))) == ElicitAnswer("accept", expected)


def test_an_answer_that_does_not_fit_the_form_is_no_answer() -> None:
    assert answer(answers(ElicitAnswer("accept", {"age": "old"}))) == ElicitAnswer("cancel")
    remote = Elicitation("s", "Who?", {"$ref": "https://example.com/form"})
    assert answer(answers(ElicitAnswer("accept", {})), remote) == ElicitAnswer("cancel")


def test_an_answer_callback_that_raises_gives_no_answer() -> None:
    async def failing(question: Elicitation) -> ElicitAnswer:
        raise RuntimeError("no screen")

    assert answer(failing) == ElicitAnswer("cancel")


def test_an_address_to_visit_has_no_form_to_check() -> None:
    visit = Elicitation("s", "Sign in.", url="https://example.com/login")
    assert answer(answers(ElicitAnswer("accept")), visit) == ElicitAnswer("accept")
