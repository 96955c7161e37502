"""Tasks of real MCP servers, in both generations of the protocol: npm's server-everything speaks 2025-11-25."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Progress, TaskRecord
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.errors import FencedError
from ferrule.run.executor import ToolExecutor
from ferrule.sources.mcp.elicitation import Elicit, ElicitAnswer, Elicitation, decline
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.mcp.tasks import read_handle
from live.mcp_world import everything
from live.task_world import TaskServer, on_http
from waiting import PATIENCE, until

pytestmark = pytest.mark.live


@contextmanager
def stdio(folder: Path) -> Iterator[TaskServer]:
    yield TaskServer(folder)


@dataclass(slots=True)
class Call:
    """A call of `research`, and what is heard of it."""

    progress: list[Progress] = field(default_factory=list[Progress])
    recorded: list[str] = field(default_factory=list[str])
    polls_when_recorded: list[int] = field(default_factory=list[int])
    running: asyncio.Task[Outcome] | None = None

    def begin(self, source: McpServers, server: TaskServer, handle: str = "", **options: Any) -> None:
        async def write(text: str) -> None:
            self.polls_when_recorded.append(len(server.lines("polled")))
            self.recorded.append(text)

        record = TaskRecord(handle, write)
        context = CallContext(call_id="c1", on_progress=self.progress.append, task=record, **options)
        self.running = asyncio.ensure_future(source.call("tasks_research", {"topic": "rain"}, context))

    async def outcome(self) -> Outcome:
        assert self.running is not None
        async with asyncio.timeout(PATIENCE):
            return await self.running


@asynccontextmanager
async def opened(server: TaskServer, elicit: Elicit = decline, seconds: float = 600.0) -> AsyncGenerator[McpServers]:
    async with McpServers([server.server(seconds)], elicit=elicit, settle_seconds=PATIENCE) as source:
        yield source


@pytest.mark.parametrize("way", [stdio, on_http])
def test_a_task_is_recorded_before_it_is_polled_and_its_messages_are_progress(way: Callable[..., Any], tmp_path: Path):  # type: ignore[no-untyped-def]
    async def run(server: TaskServer) -> None:
        call = Call()
        async with opened(server) as source:
            call.begin(source, server)
            await until(lambda: len(server.lines("polled")) > 2)
            server.make("step-1")
            await until(lambda: any(one.message == "step 1" for one in call.progress))
            server.make("finish")
            assert await call.outcome() == Answered("rain is done {}")
        handle = read_handle(call.recorded[0])
        assert handle is not None
        assert (handle.tool, [handle.id]) == ("research", [one["id"] for one in server.lines("started")])
        assert call.polls_when_recorded == [0]
        assert [one.done for one in call.progress] == sorted(one.done for one in call.progress)
        assert not server.lines("cancelled")

    with way(tmp_path) as server:
        asyncio.run(run(server))


def test_a_cancelled_call_cancels_its_task(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> None:
        call = Call()
        async with opened(server) as source:
            call.begin(source, server)
            await until(lambda: bool(server.lines("polled")))
            assert call.running is not None
            call.running.cancel()
            await asyncio.gather(call.running, return_exceptions=True)
        assert server.lines("cancelled") == [one["id"] for one in server.lines("started")]

    asyncio.run(run(TaskServer(tmp_path)))


def test_a_process_that_stops_or_has_lost_the_call_leaves_its_task_alone(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> None:
        async def lost(handle: str) -> None:
            if server.lines("polled"):
                raise FencedError("another process has it")

        async with opened(server) as source:
            for context in (CallContext(is_stopping=lambda: True), CallContext(task=TaskRecord(write=lost))):
                (tmp_path / "polled.jsonl").unlink(missing_ok=True)
                call = asyncio.ensure_future(source.call("tasks_research", {"topic": "x"}, context))
                await until(lambda: bool(server.lines("polled")))
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
        assert len(server.lines("started")) == 2
        assert not server.lines("cancelled")

    asyncio.run(run(TaskServer(tmp_path)))


def test_the_tool_timeout_does_not_end_a_task_that_shows_progress(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> None:
        async with opened(server) as source:
            executor = ToolExecutor(source, per_tool_timeout_seconds=8)
            began = time.monotonic()
            call = ToolCall.of("tasks_research", {"topic": "rain"}, id="c1")
            running = asyncio.ensure_future(executor.run(call))  # pyright: ignore[reportArgumentType]  # a coroutine
            await until(lambda: time.monotonic() - began > 9)
            server.make("finish")
            assert await running == Answered("rain is done {}")

    asyncio.run(run(TaskServer(tmp_path)))


def test_a_silent_task_is_cancelled_and_its_outcome_is_unknown(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> None:
        call = Call()
        async with opened(server, seconds=1.0) as source:
            call.begin(source, server)
            outcome = await call.outcome()
        assert isinstance(outcome, Unknown)
        assert outcome.code == "timeout"
        assert len(server.lines("cancelled")) == 1

    asyncio.run(run(TaskServer(tmp_path)))


def test_a_deadline_of_the_caller_ends_the_wait_for_a_task(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> None:
        call = Call()
        async with opened(server) as source:
            call.begin(source, server, deadline=time.time() + 10)
            outcome = await call.outcome()
        assert isinstance(outcome, Unknown)
        assert len(server.lines("cancelled")) == len(server.lines("started"))

    asyncio.run(run(TaskServer(tmp_path)))


def test_a_recorded_task_is_resumed_by_a_new_process_and_not_begun_again(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> None:
        first, second = Call(), Call()
        async with opened(server) as source:
            first.begin(source, server, is_stopping=lambda: True)
            await until(lambda: bool(server.lines("polled")))
            assert first.running is not None
            first.running.cancel()
            await asyncio.gather(first.running, return_exceptions=True)
        async with opened(server) as source:
            second.begin(source, server, handle=first.recorded[0])
            server.make("finish")
            assert await second.outcome() == Answered("rain is done {}")
        assert len(server.lines("started")) == 1

    asyncio.run(run(TaskServer(tmp_path)))


def test_a_task_survives_the_death_of_its_server(tmp_path: Path) -> None:
    async def run() -> None:
        call = Call()
        with on_http(tmp_path) as server:
            async with opened(server) as source:
                call.begin(source, server)
                await until(lambda: bool(server.lines("polled")))
                server.restart()
                seen = len(server.lines("polled"))
                await until(lambda: len(server.lines("polled")) > seen)
                server.make("finish")
                assert await call.outcome() == Answered("rain is done {}")
            assert len(server.lines("started")) == 1

    asyncio.run(run())


def test_a_task_that_its_server_has_forgotten_has_an_unknown_outcome(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> None:
        call = Call()
        async with opened(server) as source:
            call.begin(source, server)
            await until(lambda: bool(server.lines("polled")))
            next(tmp_path.glob("task-*")).unlink()
            outcome = await call.outcome()
        assert isinstance(outcome, Unknown)
        assert outcome.code == "task_lost"

    asyncio.run(run(TaskServer(tmp_path)))


def test_a_task_that_fails_is_an_error_that_the_model_reads(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> None:
        call = Call()
        server.make("fail")
        async with opened(server) as source:
            call.begin(source, server)
            assert await call.outcome() == Answered("the printer burns", is_error=True, code="tool_failed")

    asyncio.run(run(TaskServer(tmp_path)))


def test_a_question_of_a_task_is_answered_once(tmp_path: Path) -> None:
    asked: list[Elicitation] = []

    async def elicit(question: Elicitation) -> ElicitAnswer:
        asked.append(question)
        return ElicitAnswer("accept", {"colour": "blue"})

    async def run(server: TaskServer) -> None:
        call = Call()
        server.make("ask")
        async with opened(server, elicit) as source:
            call.begin(source, server)
            await until(lambda: bool(asked))
            server.make("finish")
            assert await call.outcome() == Answered("rain is done {'colour': 'blue'}")
        assert [one.context is not None and one.context.call_id for one in asked] == ["c1"]

    asyncio.run(run(TaskServer(tmp_path)))


@pytest.mark.parametrize("is_ambiguous", [False, True])
def test_a_tool_of_the_older_protocol_that_demands_a_task_is_run_as_one(is_ambiguous: bool) -> None:
    async def elicit(question: Elicitation) -> ElicitAnswer:
        choices = question.schema["properties"]["interpretation"]["oneOf"]
        return ElicitAnswer("accept", {"interpretation": choices[0]["const"]})

    async def run() -> None:
        call, recorded = Call(), list[str]()

        async def write(handle: str) -> None:
            recorded.append(handle)

        context = CallContext(on_progress=call.progress.append, task=TaskRecord(write=write))
        async with McpServers([everything()], elicit=elicit, settle_seconds=PATIENCE) as source:
            arguments = {"topic": "python", "ambiguous": is_ambiguous}
            outcome = await source.call("every_simulate-research-query", arguments, context)
        assert isinstance(outcome, Answered)
        assert "Research Report: python" in outcome.content
        assert ("Clarification" in outcome.content) == is_ambiguous
        assert len(recorded) == 1
        assert {"Gathering sources...", "Generating report..."} <= {one.message for one in call.progress}

    asyncio.run(run())
