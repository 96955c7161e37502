"""The tasks that measure hooks, and how their ends are judged."""

from __future__ import annotations

import pytest

from lab.hook_effects import Task, is_useful, row, task


def test_tasks_differ_and_half_of_them_have_begun() -> None:
    tasks = [task(number) for number in range(40)]
    assert len({(one.question, one.is_begun, str(one.payload)) for one in tasks}) == 40
    assert sum(one.is_begun for one in tasks) == 20
    assert sum(not one.fact for one in tasks) == 8


ASKED = Task("How warm is it?", task(0).tool, {"city": "Rome"}, {"temperature_c": 21}, "21")


@pytest.mark.parametrize(
    "text, is_good",
    [
        ("It is 21 degrees.", True),
        ("It is warm.", False),
        ("", False),
        ('{"temperature_c": 21}', False),
        ('```json\n{"temperature_c": 21}\n```', False),
        ('<tool_response>\n{"temperature_c": 21}', False),
    ],
)
def test_an_end_is_useful_if_it_is_text_with_the_fact(text: str, is_good: bool) -> None:
    assert is_useful(ASKED, text, [{"city": "Rome"}]) is is_good
    assert not is_useful(ASKED, text, [{"city": " "}])


def test_the_figures_of_a_hook_count_only_the_tasks_in_which_it_had_something_to_do() -> None:
    good, bad = {"useful": True}, {"useful": False}
    results = [{"": bad, "echo": good}, {"": good, "echo": bad}, {"": good, "echo": good}, {"": good}, {"": bad}]
    assert row("echo", results) == ("echo", "5", "3", "2", "2", "1", "1", "2")
    assert row("repetition", results) == ("repetition", "5", "0", "0", "0", "0", "0", "0")
