"""What servers ask: declined unless somebody answers, and an answer fits the form or is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.sources.mcp.elicitation import Elicit, ElicitAnswer, Elicitation, answer_to, declined

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "default": "Ann"}, "age": {"type": "integer"}},
    "required": ["name"],
}
ASKED = Elicitation("s", "Who?", FORM)


def answers(answer: ElicitAnswer) -> Elicit:
    async def elicit(asked: Elicitation) -> ElicitAnswer:
        return answer

    return elicit


def answer(elicit: Elicit, asked: Elicitation = ASKED) -> ElicitAnswer:
    return asyncio.run(answer_to(asked, elicit))


def test_without_anybody_to_ask_it_is_declined() -> None:
    assert answer(declined) == ElicitAnswer("decline")


@pytest.mark.parametrize(
    "content, sent",
    [({}, {"name": "Ann"}), ({"name": "Bob"}, {"name": "Bob"}), ({"age": 3}, {"name": "Ann", "age": 3})],
)
def test_defaults_of_the_form_are_filled_in(content: dict[str, Any], sent: dict[str, Any]) -> None:
    assert answer(answers(ElicitAnswer("accept", content))) == ElicitAnswer("accept", sent)


def test_an_answer_that_does_not_fit_the_form_is_no_answer() -> None:
    assert answer(answers(ElicitAnswer("accept", {"age": "old"}))) == ElicitAnswer("cancel")
    remote = Elicitation("s", "Who?", {"$ref": "https://example.com/form"})
    assert answer(answers(ElicitAnswer("accept", {})), remote) == ElicitAnswer("cancel")


def test_whoever_answers_and_fails_gives_no_answer() -> None:
    async def failing(asked: Elicitation) -> ElicitAnswer:
        raise RuntimeError("no screen")

    assert answer(failing) == ElicitAnswer("cancel")


def test_an_address_to_visit_has_no_form_to_check() -> None:
    visit = Elicitation("s", "Sign in.", url="https://example.com/login")
    assert answer(answers(ElicitAnswer("accept")), visit) == ElicitAnswer("accept")
