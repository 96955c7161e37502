"""The engine that misbehaves does so as it claims, and no fault of it becomes a call behind the gateway's engine."""

from __future__ import annotations

import http.client
import json
import urllib.request
from typing import Any

import pytest

from ferrule import ChatMessage, ToolCallRequest, ToolDefinition
from ferrule.engines.http import Deadlines
from ferrule.engines.openai import openai
from ferrule.errors import EngineError
from lab.agents.fault_runs import Run, is_worse, table_of
from lab.agents.faulty_upstream import FAULTS, NO_FAULT, RIGHT, TEXT, WRONG, faulty_upstream

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"tools": [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]},
    "responses": {"tools": [{"type": "function", "name": "bash", "parameters": SCHEMA}]},
    "messages": {"tools": [{"name": "bash", "input_schema": SCHEMA}]},
}
REPAIRED = [fault for fault in FAULTS if not fault.startswith(("broken off", "empty"))]


def post(url: str, body: dict[str, Any]) -> str:
    headers = {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_the_first_answer_has_the_fault_and_the_next_ones_do_not(path: str, stream: bool) -> None:
    body = {"model": "m", "stream": stream, **BODIES[path]}
    with faulty_upstream(lambda _: "unfit") as upstream:
        first, second, third = (post(f"{upstream.url}/v1/{path}", body) for _ in range(3))
        assert upstream.count("m") == 3
    assert WRONG in first
    assert RIGHT in second
    assert TEXT.split()[-1] in third


@pytest.mark.parametrize("path", BODIES)
def test_an_answer_that_breaks_off_ends_the_connection_inside_the_call(path: str) -> None:
    with faulty_upstream(lambda _: "broken off after text") as upstream, pytest.raises(http.client.IncompleteRead):
        post(f"{upstream.url}/v1/{path}", {"model": "m", "stream": True, **BODIES[path]})


def reply_to(fault: str) -> Any:
    tool = ToolDefinition("bash", "Runs a command.", SCHEMA)
    request = ToolCallRequest(messages=(ChatMessage.user("go"),), tools=(tool,))
    with faulty_upstream(lambda _: fault) as upstream:
        return openai("m", url=f"{upstream.url}/v1", deadlines=Deadlines(tries=1)).generate(request)


@pytest.mark.parametrize("fault", REPAIRED)
def test_a_refused_call_is_written_again(fault: str) -> None:
    assert [call.arguments for call in reply_to(fault).calls] == [{"command": f"touch {RIGHT}"}]


def test_an_empty_answer_has_no_call() -> None:
    assert reply_to("empty").calls == ()


def test_an_engine_that_breaks_off_raises() -> None:
    with pytest.raises(EngineError, match="connection lost"):
        reply_to("broken off")


def run(*, way: str = "after", wrong: bool = False, right: bool = True, code: int | None = 0) -> Run:
    return Run("pi", "unfit", way, wrong, right, right, code, 1, 1, "printed")


def test_an_agent_ends_worse_if_it_ran_the_call_or_no_longer_recovers() -> None:
    assert is_worse(run(wrong=True), run())
    assert is_worse(run(right=False), run())
    assert is_worse(run(code=1), run())
    assert not is_worse(run(), run())
    assert not is_worse(run(right=False, code=1), run(wrong=True))


def test_the_table_has_all_ways_in_a_cell_and_counts_them() -> None:
    ways = {
        "without Ferrule": run(way="without Ferrule"),
        "before": run(way="before", wrong=True),
        "after": run(code=1),
    }
    table = table_of({("pi", "unfit", way): one for way, one in ways.items()})
    assert table.columns == ("agent", "unfit")
    assert table.rows[0] == ("pi", "recovers / RUNS IT / fails (1)")
    assert "ran the refused call: 1" in table.notes[1]
    assert "ends worse than without Ferrule: 1" in table.notes[2]


def test_a_run_without_a_fault_is_among_them() -> None:
    assert FAULTS[NO_FAULT].times == 0
