"""Hearth with its model on the bus: a model worker, a tool worker and a caller, real weights, any of them killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ferrule import ChoicePolicy, Decision, ToolCall, ToolCallRequest, ToolConversation, ToolExecutor
from ferrule.errors import EngineUnavailableError
from ferrule.llm_chat.engine import BusEngine
from ferrule.run.events import ToolFinished
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import Ledger
from ferrule.sources.bus.bus import Bus
from lab.servers import MODEL, QWEN
from live.bus_parts import worker_process
from live.hearth_house import EXAMPLES, Hearth, hearth_at
from waiting import PATIENCE

pytestmark = pytest.mark.live
# SmolLM2 copies words from the question with this format, and not from the example call.
ENGINES = {
    "SmolLM2-135M": f"llama:{MODEL}?threads=1&slots=1&context=4096&format=pythonic",
    "Qwen2.5-Coder-0.5B": f"llama:{QWEN}?threads=1&slots=1&context=4096",
}
POST = "Post an offer on the board: Boskoop apples. Then tell me a long story about these apples."


@dataclass(slots=True)
class House:
    hearth: Hearth
    engine: str
    place: Path

    @contextmanager
    def model(self) -> Generator[subprocess.Popen[str]]:
        with worker_process("--engine", self.engine, env=self.hearth.environment) as process:
            yield process

    @contextmanager
    def caller(self, question: str, *options: str) -> Generator[subprocess.Popen[str]]:
        command = [
            sys.executable,
            "-m",
            "hearth.chat",
            question,
            "--frames",
            "--yes",
            "--first",
            "--rounds",
            "1",
            *options,
        ]
        with subprocess.Popen(
            command, cwd=EXAMPLES, env=self.hearth.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()
                process.wait(PATIENCE)

    def notices(self) -> list[str]:
        with closing(sqlite3.connect(self.place / "market.db")) as board:
            tables = board.execute("select name from sqlite_master where name = 'notices'").fetchall()
            return [title for (title,) in board.execute("select title from notices")] if tables else []


@pytest.fixture(scope="module", params=list(ENGINES))
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    place = tmp_path_factory.mktemp("house")
    with hearth_at(place) as hearth:
        yield House(hearth, ENGINES[request.param], place)


def frames_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def test_a_question_is_answered_by_three_processes(house: House) -> None:
    with house.model(), house.caller("Search for: boiler pressure", "--tool", "search_corpus") as caller:
        frames = list(frames_of(caller))
        assert caller.wait(PATIENCE) == 0
    (call,) = [frame for frame in frames if frame["type"] == "tool_call"]
    (result,) = [frame for frame in frames if frame["type"] == "tool_result"]
    assert call["receipt"]["how"] == "grammar"
    assert (result["tool_call_id"], result["is_error"]) == (call["id"], False)
    # The answer comes after the limit of one round.
    assert [frame["type"] for frame in frames[-2:]] == ["done", "limit"]


def is_said_after_the_post(frames: list[dict[str, Any]]) -> bool:
    kinds = [frame["type"] for frame in frames]
    return "tool_result" in kinds and "token" in kinds[kinds.index("tool_result") :]


def killed_while(
    house: House, is_time: Callable[[list[dict[str, Any]]], bool], victim: str
) -> tuple[int, list[dict[str, Any]]]:
    """Run the chat that posts, and kill one process at a moment of it. Returns the caller's exit code and frames."""
    with house.model() as model, house.caller(POST, "--tool", "post_to_market") as caller:
        frames: list[dict[str, Any]] = []
        is_killed = False
        for frame in frames_of(caller):
            frames.append(frame)
            if not is_killed and is_time(frames):
                is_killed = True
                {"model": model, "caller": caller}[victim].kill()
        code = caller.wait(PATIENCE)
    assert is_killed
    return code, frames


def test_a_model_that_is_killed_in_mid_answer_ends_the_chat_and_posts_once(house: House) -> None:
    before = len(house.notices())
    code, frames = killed_while(house, is_said_after_the_post, "model")
    assert len(house.notices()) == before + 1
    if code == 0:
        # The answer had ended before the signal came.
        assert "done" in [frame["type"] for frame in frames]
    else:
        assert frames[-1] == {"type": "error", "code": "engine_unavailable", "retryable": True}
        assert "done" not in [frame["type"] for frame in frames]


def test_a_model_that_is_killed_inside_a_call_posts_nothing(house: House) -> None:
    before = len(house.notices())
    code, frames = killed_while(house, lambda frames: frames[-1]["type"] == "tool_call_delta", "model")
    posted = len(house.notices()) - before
    assert posted == [frame["type"] for frame in frames].count("tool_call")
    if posted == 0:
        assert code == 1
        assert frames[-1]["retryable"]


def test_a_caller_that_is_killed_in_mid_answer_posts_once_and_frees_the_model(house: House) -> None:
    before = len(house.notices())
    code, _ = killed_while(house, is_said_after_the_post, "caller")
    assert code == -signal.SIGKILL
    assert len(house.notices()) == before + 1


def test_a_conversation_in_a_ledger_goes_on_with_another_model_worker_and_posts_once(house: House) -> None:
    before = len(house.notices())
    path = house.place / f"ledger-{os.urandom(4).hex()}.db"

    async def scenario() -> None:
        async with await open_ledger(str(path)) as ledger, Bus(house.hearth.url) as bus:
            executor = ToolExecutor(bus, ["post_to_market"], max_iterations=1)
            with house.model() as model:
                talk = await opened(ledger, bus, executor)
                with pytest.raises(EngineUnavailableError):
                    await killed_after_the_post(talk, model)
                await talk.close()
            with house.model():
                talk = await opened(ledger, bus, executor)
                assert talk.is_unfinished
                await talk.resume()
                assert not talk.is_unfinished
                await talk.close()

    asyncio.run(scenario())
    assert len(house.notices()) == before + 1


async def opened(ledger: Ledger, bus: Bus, executor: ToolExecutor) -> ToolConversation:
    request = ToolCallRequest(
        messages=(),
        tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
        parallel_tool_calls=False,
        max_tokens=256,
        temperature=0,
    )
    return await ToolConversation.open(ledger, "talk", BusEngine(bus), executor, request=request, decide=approve)


async def approve(call: ToolCall) -> Decision:
    return Decision(True)


async def killed_after_the_post(talk: ToolConversation, model: subprocess.Popen[str]) -> None:
    async for event in talk.stream(POST):
        if isinstance(event, ToolFinished):
            # The post is recorded, and the model is about to be asked for its answer.
            model.kill()
