from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.bfcl_data import CITIES, right_reply, write_data
from ferrule import Event, ToolCallRequest
from ferrule.bench.bfcl.categories import select_categories
from ferrule.bench.bfcl.client import RunOptions
from ferrule.bench.bfcl.engine_label import engine_label
from ferrule.bench.bfcl.miss import Reason
from ferrule.bench.bfcl.run import RunPlan, UnfinishedRunError, load_previous, run, write
from ferrule.bench.bfcl.summary import CategoryScore, RunScore
from ferrule.bench.bfcl.tasks import load_tasks
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.errors import EngineUnavailableError, FerruleError, SchemaError

NAMES = ("simple_python", "parallel", "irrelevance", "live_relevance")


class CorrectEngine(Engine):
    """Answers correctly, but fails with the given error from the `failing`-th question on."""

    traits = Traits(name="knowing")

    def __init__(self, failing: int = 1000, failure: type[FerruleError] = EngineUnavailableError) -> None:
        self.requests: list[ToolCallRequest] = []
        self._failing, self._failure = failing, failure

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        if len(self.requests) > self._failing:
            raise self._failure("not now")
        for event in events_of(right_reply(request)):
            yield event

    async def close(self) -> None:
        return


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    return RunPlan(
        load_tasks(select_categories(NAMES), None, write_data(tmp_path / "data")), RunOptions(concurrency=2), "knowing"
    )


def run_plan(engine: Engine, plan: RunPlan, out: Path) -> tuple[RunScore, int]:
    steps: list[str] = []
    return asyncio.run(run(engine, plan, out, steps.append)), len(steps)


def test_right_replies_are_counted_right_in_every_category(plan: RunPlan, tmp_path: Path) -> None:
    score, steps = run_plan(CorrectEngine(), plan, tmp_path)
    assert {one.name: (tally.right, tally.answered) for one, tally in score.scores.items()} == dict.fromkeys(
        NAMES, (len(CITIES), len(CITIES))
    )
    assert steps == len(plan.tasks)


def test_what_was_answered_is_not_asked_again(plan: RunPlan, tmp_path: Path) -> None:
    half = replace(plan, tasks=plan.tasks[:10])
    first, second = CorrectEngine(), CorrectEngine()
    run_plan(first, half, tmp_path)
    score, steps = run_plan(second, plan, tmp_path)
    assert (len(first.requests), len(second.requests), steps) == (10, len(plan.tasks) - 10, len(plan.tasks))
    assert score.total.right == len(plan.tasks)


def test_a_retryable_failure_leaves_the_question_open_and_the_run_can_resume(plan: RunPlan, tmp_path: Path) -> None:
    failing = CorrectEngine(failing=7)
    with pytest.raises(UnfinishedRunError, match=r"17 of 24 questions have no answer; the last failure: not now"):
        run_plan(failing, plan, tmp_path)
    assert len(failing.requests) < len(plan.tasks)
    back = CorrectEngine()
    score, _ = run_plan(back, plan, tmp_path)
    assert (len(back.requests), score.total.right) == (17, 24)


def test_a_request_that_is_refused_for_good_is_an_answer_that_is_not_right(plan: RunPlan, tmp_path: Path) -> None:
    score, _ = run_plan(CorrectEngine(failing=20, failure=SchemaError), plan, tmp_path)
    assert score.total.misses == {Reason.REFUSED: 4}
    engine = CorrectEngine()
    run_plan(engine, plan, tmp_path)
    assert engine.requests == []


def test_an_earlier_run_is_loaded_only_if_it_answered_every_question(plan: RunPlan, tmp_path: Path) -> None:
    free = replace(plan, options=replace(plan.options, is_constrained=False))
    assert load_previous(free, tmp_path) is None
    run_plan(CorrectEngine(), replace(free, tasks=free.tasks[:5]), tmp_path)
    assert load_previous(free, tmp_path) is None
    score, _ = run_plan(CorrectEngine(), free, tmp_path)
    assert load_previous(free, tmp_path) == score
    assert load_previous(replace(free, engine_name="another"), tmp_path) is None


def test_results_say_how_each_category_was_asked(plan: RunPlan, tmp_path: Path) -> None:
    engine = CorrectEngine()
    constrained, _ = run_plan(engine, plan, tmp_path)
    free, _ = run_plan(engine, replace(plan, options=replace(plan.options, is_constrained=False)), tmp_path)
    write(tmp_path, [constrained, free], plan)
    results = json.loads((tmp_path / "results.json").read_text())
    choices = {way: [one["choice"] for one in results[way]["categories"].values()] for way in results}
    assert choices == {"constrained": ["required", "required", "auto", "auto"], "unconstrained": ["auto"] * 4}
    assert [results[way]["settings"]["asked"] for way in results] == list(results)
    page = (tmp_path / "results.md").read_text()
    assert "| simple\\_python | required | auto | 6 of 6 | 100.0% |" in page
    assert "(bfcl.svg)" in page
    assert (tmp_path / "bfcl.svg").read_text().count(">6/6</text>") == 8


@pytest.mark.parametrize(
    "engine, name",
    [
        ("openai:small?key=secret&url=http://x", "openai:small"),
        ("vllm:http://me:secret@host:8000/v1?model=m&key=secret", "vllm:http://host:8000/v1?model=m"),
        ("llama:some/folder/model.gguf?threads=2&format=hermes", "llama:model.gguf?format=hermes"),
    ],
)
def test_an_engine_label_has_no_keys_and_folders(engine: str, name: str) -> None:
    assert engine_label(engine) == name


@pytest.mark.parametrize("right, answered", [(0, 1), (1, 1), (0, 300), (150, 300), (300, 300)])
def test_the_interval_holds_the_share_and_lies_between_none_and_all(right: int, answered: int) -> None:
    low, high = CategoryScore(answered, right).interval
    assert 0 <= low <= right / answered <= high <= 1
    assert high - low > 0
