from __future__ import annotations

from collections.abc import Callable

import pytest

from ferrule import Reply, ToolCall

Run = Callable[..., str]


def call(name: str, id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall.of(name, arguments, id=id)


def test_tool_calling_runs_what_is_called_and_tells_the_model(run: Run) -> None:
    replies = [
        Reply.of(call("get_weather", city="Paris")),
        Reply.of("It is sunny."),
        Reply.of(call("calculate", expression="2 * (3 + 4)")),
        Reply.of("14."),
        Reply.of(call("search_notes", words="KEY")),
        Reply.of("In the garage."),
    ]
    printed = run("tool_calling.py", replies)
    assert "get_weather returned: sunny, 24 degrees\nmodel: It is sunny." in printed
    assert "calculate returned: 14\nmodel: 14." in printed
    assert 'search_notes returned: ["The spare key hangs in the garage."]' in printed


def test_tool_calling_shows_a_failure_as_one(run: Run) -> None:
    answer = Reply.of("I do not know.")
    bad = [call("get_weather", city="Atlantis"), call("calculate", expression="1 / 0"), call("search_notes")]
    printed = run("tool_calling.py", [reply for one in bad for reply in (Reply.of(one), answer)])
    assert "get_weather failed: nothing is known of 'Atlantis'; known: Paris, Rome, Oslo" in printed
    assert "calculate failed: '1 / 0' cannot be worked out: division by zero" in printed
    assert "search_notes failed: invalid_arguments: " in printed


def test_tool_calling_leaves_the_choice_to_a_model_that_can_choose(run: Run) -> None:
    printed = run("tool_calling.py", [Reply.of("Sunny."), Reply.of("Sunny.")] * 3, "--choose")
    assert "calls:" not in printed
    assert printed.count("model: Sunny.") == 3


def test_a_saved_conversation_resumes(run: Run) -> None:
    items = ("milk", "bread", "apples")
    replies = [reply for item in items for reply in (Reply.of(call("add_item", item=item)), Reply.of(f"{item}: added"))]
    printed = run("many_turns.py", replies)
    assert "(12 messages so far)" in printed
    assert "model: apples: added" in printed
    assert printed.endswith("the list: milk, bread, apples\n")


@pytest.mark.parametrize("cities", [("Rome",), ("Rome", "Bern", "Oslo")])
def test_parallel_calls_all_start_before_the_first_ends(run: Run, cities: tuple[str, ...]) -> None:
    requests = Reply.of(*(call("get_weather", id=f"c{n}", city=city) for n, city in enumerate(cities)))
    lines = run("parallel_calls.py", [requests, Reply.of("All sunny.")]).splitlines()
    assert [line.partition(":")[0] for line in lines[1:-2]] == ["started"] * len(cities) + ["finished"] * len(cities)
    assert lines[-2].startswith(f"{len(cities)} calls of 0.5 s each took ")


def test_a_stream_is_shown_piece_by_piece(run: Run) -> None:
    replies = [Reply.of(call("get_weather", city="[red]Rome", days=2)), Reply.of("Sunny.")]
    printed = run("streaming.py", replies)
    assert 'get_weather {"city": "[red]Rome", "days": 2}|' in printed
    assert "get_weather returned: [red]Rome: sunny, 2 days in a row\nSunny.|\n" in printed


def test_a_call_that_was_cut_off_is_shown_and_not_run(run: Run) -> None:
    cut = ToolCall(id="c1", function=call("get_weather", city="Rome", days=2).function, complete=False)
    printed = run("streaming.py", [Reply.of(cut)])
    assert "cut off, and not run" in printed
    assert "gave" not in printed


def test_an_answer_becomes_a_value(run: Run) -> None:
    answer = '{"city": "Oslo", "degrees": -3, "sky": "sunny"}'
    printed = run("structured_answer.py", [Reply.of(call("get_weather", city="Oslo")), Reply.of(answer)])
    assert "as a value: Advice(city='Oslo', degrees=-3, sky='sunny')" in printed
    assert printed.endswith("leave the umbrella\n")


def test_a_receipt_is_shown_for_what_was_handed_on_and_for_what_was_not(run: Run) -> None:
    cut = ToolCall(id="c1", function=call("tag_photo", tags=["sea", "sea"]).function, complete=False)
    printed = run("receipts.py", [Reply.of(call("book_table", city="Rome", guests=4, time="19:30")), Reply.of(cut)])
    assert 'calls: book_table {"city": "Rome", "guests": 4, "time": "19:30"}\n  validated by fake (fake)' in printed
    assert 'rejected: tag_photo {"tags": ["sea", "sea"]}' in printed
