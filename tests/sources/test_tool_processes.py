"""Functions in worker processes: the same answers, and no death, hang or fork of one reaches the program."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import tool
from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import DefinitionError
from ferrule.run.executor import ToolExecutor
from ferrule.sources.functions import Function, Functions
from sources import isolated_tools as tools
from waiting import MOMENT, PATIENCE, eventually

SRC = Path(__file__).parents[2] / "src"
MEGABYTE = 1 << 20


@asynccontextmanager
async def isolated(*functions: Function, **options: Any) -> AsyncGenerator[Callable[..., Coroutine[Any, Any, Outcome]]]:
    """A source whose functions run in processes; yields a function that calls the first of them."""
    async with Functions(functions, isolation="process", **options) as source:
        name = (await source.tools())[0].name

        def call(context: CallContext | None = None, **arguments: Any) -> Coroutine[Any, Any, Outcome]:
            return source.call(name, arguments, context or within(MOMENT))

        yield call


def within(seconds: float, **more: Any) -> CallContext:
    return CallContext(deadline=time.time() + seconds, **more)


def outcome(function: Function, context: CallContext | None = None, **arguments: Any) -> Outcome:
    async def called() -> Outcome:
        async with isolated(function) as call:
            return await call(context, **arguments)

    return asyncio.run(called())


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids(file: Path) -> list[int]:
    eventually(lambda: file.is_file() and file.read_text() != "")
    return [int(one) for one in file.read_text().split()]


def test_a_function_in_a_process_gets_its_types_and_its_context_and_answers_the_same() -> None:
    seen: list[Progress] = []
    context = within(
        MOMENT, call_id="c1", principal=Principal("ann", "acme", frozenset({"greet"})), on_progress=seen.append
    )
    assert outcome(tools.next_day, day="2026-02-28") == Answered("2026-03-01")
    assert outcome(tools.greet, context, word="hello") == Answered("hello ann of acme, c1, ['greet']")
    assert seen == [Progress(1, 2, "half")]
    assert outcome(tools.refuse) == Answered("the city is not on the map", is_error=True, code="tool_failed")
    assert outcome(tools.fail) == Answered("the tool failed (RuntimeError)", is_error=True, code="tool_failed")
    assert outcome(tools.leave) == Answered("the tool failed (SystemExit)", is_error=True, code="tool_failed")


@pytest.mark.parametrize("function", [tools.pid, tools.pid_async])
def test_a_worker_is_another_process_and_is_used_again_by_the_same_tenant_only(function: Function) -> None:
    async def scenario() -> None:
        async with isolated(function) as call:
            ann, eve = Principal("ann", "acme"), Principal("eve", "evil")
            first, again = [await call(within(MOMENT, principal=ann)) for _ in range(2)]
            other = await call(within(MOMENT, principal=eve))
            assert isinstance(first, Answered)
            assert first == again != other
            assert first.content != os.getpid()
        assert not is_running(first.content)

    asyncio.run(scenario())


def test_one_function_of_several_can_be_isolated_by_its_decorator() -> None:
    async def scenario() -> None:
        async with Functions([tools.pid, tool(isolation="process", name="apart")(tools.pid)]) as source:
            here, apart = [await source.call(name, {}, within(MOMENT)) for name in ("pid", "apart")]
            assert here == Answered(os.getpid()) != apart

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [0, 3])
def test_the_death_of_a_worker_is_an_outcome_and_the_next_call_gets_a_new_one(code: int) -> None:
    async def scenario() -> None:
        async with Functions([tools.drop_dead, tools.pid], isolation="process") as source:
            dead = await source.call("drop_dead", {"code": code}, within(MOMENT))
            message = f"worker_died: the tool's process exited with code {code} while it ran"
            assert dead == Answered(message, is_error=True, code="worker_died")
            assert isinstance(await source.call("pid", {}, within(MOMENT)), Answered)

    asyncio.run(scenario())


def test_a_call_with_side_effects_whose_worker_died_is_unknown_and_is_never_sent_again(tmp_path: Path) -> None:
    async def scenario() -> Outcome:
        executor = ToolExecutor(Functions([tools.pay], isolation="process"), per_tool_timeout_seconds=MOMENT)
        await executor.refresh()
        arguments = {"file": str(tmp_path / "payments"), "ends": True}
        return await executor.run(ToolCall.of("pay", arguments, id="c1"))

    assert asyncio.run(scenario()) == Unknown("its process exited with code 0 while it ran", code="worker_died")
    assert (tmp_path / "payments").read_text() == "paid\n"


def test_an_idle_worker_that_died_is_replaced_before_the_call_is_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with isolated(tools.pay) as call:
            arguments = {"file": str(tmp_path / "payments"), "ends": False}
            assert await call(**arguments) == Answered("paid")
            (worker,) = children()
            os.kill(worker, 9)
            # Until the kernel reports its end: before that, nobody can tell a dying worker from a living one.
            eventually(lambda: os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
            assert await call(**arguments) == Answered("paid")

    asyncio.run(scenario())
    assert (tmp_path / "payments").read_text() == "paid\npaid\n"


def children() -> list[int]:
    return list(map(int, Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())) or [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if f"PPid:\t{os.getpid()}\n" in (path / "status").read_text()
    ]


@pytest.mark.parametrize("has_side_effects", [False, True])
def test_a_function_that_hangs_is_killed_at_its_deadline_with_what_it_forked(
    tmp_path: Path, has_side_effects: bool
) -> None:
    file = tmp_path / "pids"
    function = tool(side_effects=has_side_effects)(tools.hang)

    async def scenario() -> Outcome:
        async with Functions([tools.pid, function], isolation="process") as source:
            # So that the worker runs already.
            await source.call("pid", {}, within(MOMENT))
            result = await source.call("hang", {"file": str(file)}, within(2.0))
            eventually(lambda: not any(map(is_running, pids(file))))
            return result

    result = asyncio.run(scenario())
    assert isinstance(result, Unknown if has_side_effects else Answered)
    assert result.code == "timeout"


def test_what_a_function_forks_gives_no_second_answer_and_ends_with_the_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Functions([tools.fork_and_return, tools.leave_process_behind], isolation="process") as source:
            for name in ("fork_and_return", "leave_process_behind") * 2:
                file = tmp_path / name
                file.unlink(missing_ok=True)
                answer = await source.call(name, {"file": str(file)}, within(MOMENT))
                assert answer == Answered("parent" if name == "fork_and_return" else "started")
                eventually(lambda: not any(map(is_running, pids(file))))  # noqa: B023

    asyncio.run(scenario())


def test_memory_can_be_limited() -> None:
    async def scenario() -> None:
        async with Functions(
            [tools.take_memory, tools.take_all_memory], isolation="process", memory_bytes=768 * MEGABYTE
        ) as source:
            assert await source.call("take_memory", {"megabytes": 1}, within(MOMENT)) == Answered(MEGABYTE)
            for _ in range(2):
                eaten = await source.call("take_all_memory", {}, within(MOMENT))
                assert isinstance(eaten, Answered)
                assert eaten.code in ("tool_failed", "worker_died")
            assert await source.call("take_memory", {"megabytes": 1}, within(MOMENT)) == Answered(MEGABYTE)

    asyncio.run(scenario())


def test_a_forged_answer_is_not_taken_for_an_answer() -> None:
    result = outcome(tools.write_to_all_pipes)
    assert isinstance(result, Answered)
    assert (result.is_error, result.code) == (True, "worker_died")


def test_an_answer_that_is_too_large_is_refused_and_a_large_one_arrives() -> None:
    async def scenario() -> None:
        async with isolated(tools.long_text) as call:
            assert await call(megabytes=4) == Answered("x" * 4 * MEGABYTE)
            refused = await call(megabytes=65)
            assert isinstance(refused, Answered)
            assert refused.code == "result_too_large"

    asyncio.run(scenario())


def test_processes_are_bounded_per_tenant() -> None:
    async def scenario() -> None:
        async with isolated(tools.hang, processes=1) as call:
            hanging = asyncio.ensure_future(call(within(MOMENT), file=os.devnull))
            await asyncio.sleep(0)
            refused = await call(within(MOMENT), file=os.devnull)
            assert refused == NotDelivered("all 1 worker processes of the tenant are busy", code="tool_busy")
        # Closing the source kills its workers, also the one with a call.
        ended = await asyncio.wait_for(hanging, PATIENCE)
        assert isinstance(ended, Answered | NotDelivered)

    asyncio.run(scenario())


class Shop:
    @tool
    def price(self, article: str) -> int:
        """The price."""
        return len(article)


@pytest.mark.parametrize("function", [tools.make_local(), Shop().price], ids=["local", "bound"])
def test_only_functions_of_a_module_can_be_isolated(function: Function) -> None:
    with pytest.raises(DefinitionError, match="cannot run in a process of its own") as caught:
        Functions([function], isolation="process")
    assert "top of a module" in caught.value.hint


def test_an_unknown_isolation_is_refused() -> None:
    with pytest.raises(DefinitionError, match="there is no isolation 'container'"):
        Functions([], isolation="container")  # pyright: ignore[reportArgumentType]


def test_a_function_that_cannot_be_loaded_in_a_worker_did_not_run(tmp_path: Path, monkeypatch: Any) -> None:
    module = tmp_path / "vanishing_tools.py"
    module.write_text("def look() -> str:\n    return 'seen'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import vanishing_tools  # pyright: ignore[reportMissingImports]

    async def scenario() -> Outcome:
        async with isolated(vanishing_tools.look) as call:  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
            module.unlink()
            return await call()

    result = asyncio.run(scenario())
    assert isinstance(result, NotDelivered)
    assert result.code == "worker_unavailable"


def test_functions_of_a_script_run_in_a_worker_and_die_with_the_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import asyncio, os, sys, time
        from ferrule.core.context import CallContext
        from ferrule.sources.functions import Functions

        def hang() -> str:
            open({str(tmp_path / "pids")!r}, "w").write(str(os.getpid()))
            time.sleep(1e6)
            return ""

        async def main() -> None:
            await Functions([hang], isolation="process").call("hang", {{}}, CallContext())

        if __name__ == "__main__":
            asyncio.run(main())
        """)
    )
    process = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": str(SRC)})
    (worker,) = pids(tmp_path / "pids")
    assert is_running(worker)
    process.kill()
    process.wait()
    eventually(lambda: not is_running(worker))
