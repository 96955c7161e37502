from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.bfcl_data import CITIES, right_reply, written
from ferrule import Event, ToolCallRequest
from ferrule.bench.bfcl.categories import chosen
from ferrule.bench.bfcl.client import Manner
from ferrule.bench.bfcl.engine_label import named
from ferrule.bench.bfcl.miss import Reason
from ferrule.bench.bfcl.run import Asked, Unfinished, kept, run, write
from ferrule.bench.bfcl.summary import Scored, Tally
from ferrule.bench.bfcl.tasks import tasks
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.errors import EngineUnavailableError, FerruleError, SchemaError

NAMES = ("simple_python", "parallel", "irrelevance", "live_relevance")


class Knowing(Engine):
    """Answers rightly, but fails from the `failing`-th question on, in the given way."""

    traits = Traits(name="knowing")

    def __init__(self, failing: int = 1000, failure: type[FerruleError] = EngineUnavailableError) -> None:
        self.requests: list[ToolCallRequest] = []
        self._failing, self._failure = failing, failure

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        if len(self.requests) > self._failing:
            raise self._failure("not now")
        for event in events_of(right_reply(request)):
            yield event

    async def close(self) -> None:
        return


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tasks(chosen(NAMES), None, written(tmp_path / "data")), Manner(width=2), "knowing")


def answered(engine: Engine, asked: Asked, out: Path) -> tuple[Scored, int]:
    steps: list[str] = []
    return asyncio.run(run(engine, asked, out, steps.append)), len(steps)


def test_right_replies_are_counted_right_in_every_category(asked: Asked, tmp_path: Path) -> None:
    found, steps = answered(Knowing(), asked, tmp_path)
    assert {one.name: (tally.right, tally.answered) for one, tally in found.tallies.items()} == dict.fromkeys(
        NAMES, (len(CITIES), len(CITIES))
    )
    assert steps == len(asked.tasks)


def test_what_was_answered_is_not_asked_again(asked: Asked, tmp_path: Path) -> None:
    half = replace(asked, tasks=asked.tasks[:10])
    first, second = Knowing(), Knowing()
    answered(first, half, tmp_path)
    found, steps = answered(second, asked, tmp_path)
    assert (len(first.requests), len(second.requests), steps) == (10, len(asked.tasks) - 10, len(asked.tasks))
    assert found.together.right == len(asked.tasks)


def test_a_failure_that_may_pass_leaves_the_question_open_and_the_run_can_go_on(asked: Asked, tmp_path: Path) -> None:
    gone = Knowing(failing=7)
    with pytest.raises(Unfinished, match=r"17 of 24 questions have no answer; the last failure: not now"):
        answered(gone, asked, tmp_path)
    assert len(gone.requests) < len(asked.tasks)
    back = Knowing()
    found, _ = answered(back, asked, tmp_path)
    assert (len(back.requests), found.together.right) == (17, 24)


def test_a_request_that_is_refused_for_good_is_an_answer_that_is_not_right(asked: Asked, tmp_path: Path) -> None:
    found, _ = answered(Knowing(failing=20, failure=SchemaError), asked, tmp_path)
    assert found.together.misses == {Reason.REFUSED: 4}
    engine = Knowing()
    answered(engine, asked, tmp_path)
    assert engine.requests == []


def test_the_other_manner_is_shown_beside_it_only_where_it_answered_the_same(asked: Asked, tmp_path: Path) -> None:
    free = replace(asked, manner=replace(asked.manner, is_constrained=False))
    assert kept(free, tmp_path) is None
    answered(Knowing(), replace(free, tasks=free.tasks[:5]), tmp_path)
    assert kept(free, tmp_path) is None
    found, _ = answered(Knowing(), free, tmp_path)
    assert kept(free, tmp_path) == found
    assert kept(replace(free, who="another"), tmp_path) is None


def test_results_say_how_each_category_was_asked(asked: Asked, tmp_path: Path) -> None:
    engine = Knowing()
    ruled, _ = answered(engine, asked, tmp_path)
    free, _ = answered(engine, replace(asked, manner=replace(asked.manner, is_constrained=False)), tmp_path)
    write(tmp_path, [ruled, free], asked)
    held = json.loads((tmp_path / "results.json").read_text())
    choices = {way: [one["choice"] for one in held[way]["categories"].values()] for way in held}
    assert choices == {"constrained": ["required", "required", "auto", "auto"], "unconstrained": ["auto"] * 4}
    assert [held[way]["settings"]["asked"] for way in held] == list(held)
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
def test_an_engine_is_named_without_keys_and_folders(engine: str, name: str) -> None:
    assert named(engine) == name


@pytest.mark.parametrize("right, answered", [(0, 1), (1, 1), (0, 300), (150, 300), (300, 300)])
def test_the_interval_holds_the_share_and_lies_between_none_and_all(right: int, answered: int) -> None:
    low, high = Tally(answered, right).interval
    assert 0 <= low <= right / answered <= high <= 1
    assert high - low > 0
