"""Traces of real agents, unmodified, against `ferrule serve` on a real model: one run is one trace.

Each framework sends its history back in its own way. The gateway has to recognise it without an id.
"""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.request import urlopen

import pytest

from lab.client_runs import AGENTS, PYDANTIC_AI, ClientRun
from lab.gateway_clients import ClientBench

pytestmark = pytest.mark.live
_MOST_RUNS = 5


def traces(stage: ClientBench) -> dict[str, dict[str, Any]]:
    with urlopen(f"{stage.gateway}/v1/traces?limit=100") as answer:
        return {one["id"]: one for one in json.load(answer)["data"]}


def settled_traces(stage: ClientBench, requests: int) -> dict[str, dict[str, Any]]:
    """The traces, when so many requests in them have ended. They are written a moment after the answer."""
    deadline = time.monotonic() + 60
    while True:
        rows = traces(stage)
        ended = [one for one in rows.values() if one["status"] not in ("running", "")]
        if sum(one["request_count"] for one in ended) >= requests or time.monotonic() > deadline:
            return rows
        time.sleep(0.1)


def run_with_calls(stage: ClientBench, way: ClientRun) -> tuple[dict[str, dict[str, Any]], int]:
    """Run until a run has made calls. Returns the traces before it, and how many requests it sent.

    So small a model, at this temperature, sometimes writes up to its token limit before a call is whole. The client
    then ends after one request, and says that the answer was incomplete.
    """
    before = traces(stage)
    for _ in range(_MOST_RUNS):
        stage.recorder.take()
        summary = stage.ask(way.venv, way.op)
        assert not summary["error"]
        requests = len(stage.recorder.take())
        if summary["calls"]:
            return before, requests
        assert summary["finish"] != "completed", "a call is required"
        known = sum(one["request_count"] for one in before.values())
        before = settled_traces(stage, known + requests)
    raise AssertionError(f"no call in {_MOST_RUNS} runs")


@pytest.mark.parametrize("way", [*AGENTS, *PYDANTIC_AI], ids=lambda way: way.op)
def test_a_run_of_an_agent_is_one_trace_with_all_its_requests(stage: ClientBench, way: ClientRun) -> None:
    before, requests = run_with_calls(stage, way)
    assert requests >= 2, "a run asks, calls a tool, and asks again"
    known = sum(one["request_count"] for one in before.values())
    rows = [one for id, one in settled_traces(stage, known + requests).items() if id not in before]
    assert [one["request_count"] for one in rows] == [requests]
    assert rows[0]["error_count"] == 0
    assert rows[0]["completion_tokens"] > 0
