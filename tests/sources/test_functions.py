"""Python functions as tools: they get values of the hinted types, and failures leak nothing."""

from __future__ import annotations

import asyncio
import datetime
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from ferrule import Media, tool
from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.media import media_line
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.errors import DefinitionError, ToolError
from ferrule.server.process import event_loop
from ferrule.sources.functions import Function, Functions


def outcome(function: Function, arguments: dict[str, Any], context: CallContext | None = None) -> Outcome:
    async def called() -> Outcome:
        async with Functions([function]) as source:
            (definition,) = await source.tools()
            return await source.call(definition.name, arguments, context or CallContext())

    return asyncio.run(called())


def test_a_function_is_called_with_the_types_that_it_asks_for() -> None:
    def next_day(day: datetime.date) -> datetime.date:
        return day + datetime.timedelta(days=1)

    assert outcome(next_day, {"day": "2026-02-28"}) == Answered("2026-03-01")


def test_a_result_with_more_paths_than_steps_ends() -> None:
    def knot() -> list[Any]:
        loop: list[Any] = []
        loop += [loop, loop]
        return loop

    assert isinstance(outcome(knot, {}), Answered)


def test_images_are_found_in_the_objects_of_a_program() -> None:
    shot = Media("image", "image/png", data=b"pixels")

    @dataclass
    class Page:
        title: str
        shot: Media

    def look() -> Any:
        return Page("Home", shot)

    answer = outcome(look, {})
    assert answer == Answered({"title": "Home", "shot": media_line(shot)}, media=(shot,))


def test_a_plain_function_runs_in_a_thread_and_an_asynchronous_one_in_the_loop() -> None:
    def plain() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def asynchronous() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    assert outcome(plain, {}) == Answered(False)
    assert outcome(asynchronous, {}) == Answered(True)


def test_two_plain_functions_do_not_wait_for_each_other() -> None:
    together = threading.Barrier(2, timeout=5)

    def meet(name: str) -> str:
        together.wait()
        return name

    async def both() -> list[Outcome]:
        async with Functions([meet]) as source:
            calls = (source.call("meet", {"name": name}, CallContext()) for name in "ab")
            return list(await asyncio.gather(*calls))

    assert asyncio.run(both()) == [Answered("a"), Answered("b")]


def test_the_context_is_given_by_annotation_and_not_shown_to_the_model() -> None:
    received: list[Progress] = []

    @tool
    def greet(word: str, context: CallContext) -> str:
        """Greets."""
        context.report(1, 2, "half")
        return f"{word} {context.principal.name}, {context.call_id}"

    assert set(greet.definition.properties) == {"word"}
    context = CallContext(call_id="c1", principal=Principal("ann"), on_progress=received.append)
    assert outcome(greet, {"word": "hello"}, context) == Answered("hello ann, c1")
    assert received == [Progress(1, 2, "half")]


def test_what_a_tool_means_to_say_reaches_the_model_and_what_it_does_not_mean_stays_inside() -> None:
    def meant() -> None:
        raise ToolError("the city is not on the map")

    def leaked() -> None:
        raise RuntimeError("password=hunter2")

    class PanicError(BaseException):
        """An exception like those that extensions in other languages raise."""

    async def panicked() -> None:
        raise PanicError("password=hunter2")

    assert outcome(panicked, {}) == Answered("the tool failed (PanicError)", is_error=True, code="tool_failed")
    assert outcome(meant, {}) == Answered("the city is not on the map", is_error=True, code="tool_failed")
    assert outcome(leaked, {}) == Answered("the tool failed (RuntimeError)", is_error=True, code="tool_failed")


class Exiting:
    """A value that ends the process when somebody looks at it."""

    def __str__(self) -> str:
        raise SystemExit(3)


@dataclass
class Order:
    """A type that ends the process when it is made."""

    item: str

    def __post_init__(self) -> None:
        raise SystemExit(3)


def raiser(error: BaseException, *, is_async: bool) -> Function:
    async def asynchronous() -> None:
        raise error

    def plain() -> None:
        raise error

    return asynchronous if is_async else plain


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit(), StopIteration(1), asyncio.CancelledError()]
)
def test_a_function_that_exits_has_failed_and_ends_nothing_else(error: BaseException, is_async: bool) -> None:
    result = outcome(raiser(error, is_async=is_async), {})
    assert isinstance(result, Answered)
    assert (result.is_error, result.code) == (True, "tool_failed")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_value_that_exits_when_it_is_read_is_a_failure_of_the_tool(is_async: bool) -> None:
    async def asynchronous() -> Exiting:
        return Exiting()

    def plain() -> Exiting:
        return Exiting()

    failure = Answered("the tool failed (SystemExit)", is_error=True, code="tool_failed")
    assert outcome(asynchronous if is_async else plain, {}) == failure


def test_a_type_that_exits_while_it_reads_an_argument_is_a_failure_of_the_tool() -> None:
    def buy(order: Order) -> str:
        return order.item

    failure = Answered("the tool failed (SystemExit)", is_error=True, code="tool_failed")
    assert outcome(buy, {"order": {"item": "tea"}}) == failure


def test_a_task_that_a_function_starts_and_that_exits_does_not_end_the_event_loop() -> None:
    async def child() -> None:
        sys.exit(3)

    async def parent() -> None:
        await asyncio.gather(child(), asyncio.sleep(0))

    async def called() -> Outcome:
        async with Functions([parent]) as source:
            return await source.call("parent", {}, CallContext())

    failure = Answered("the tool failed (RuntimeError)", is_error=True, code="tool_failed")
    assert event_loop.run(called()) == failure


def test_a_call_that_is_given_up_and_closed_stays_closed() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    async def given_up() -> None:
        call = Functions([waits]).call("waits", {}, CallContext())
        call.send(None)
        call.close()

    asyncio.run(given_up())


def test_a_function_that_is_not_there_was_not_delivered() -> None:
    async def called() -> Outcome:
        return await Functions([]).call("nothing", {}, CallContext())

    assert isinstance(asyncio.run(called()), NotDelivered)


def test_cancelling_a_call_cancels_the_function() -> None:
    async def cancelled() -> bool:
        was_cancelled = asyncio.Event()

        async def wait() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                was_cancelled.set()

        source = Functions([wait])
        work = asyncio.ensure_future(source.call("wait", {}, CallContext()))
        await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await source.close()
        return was_cancelled.is_set()

    assert asyncio.run(cancelled())


@pytest.mark.parametrize("ends_with", [None, RuntimeError("while it tidied up")])
def test_a_function_that_keeps_its_cancellation_to_itself_does_not_undo_it(ends_with: Exception | None) -> None:
    async def cancelled() -> None:
        async def stubborn() -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if ends_with is not None:
                    raise ends_with from None
            return "done all the same"

        async with Functions([stubborn]) as source:
            work = asyncio.ensure_future(source.call("stubborn", {}, CallContext()))
            await asyncio.sleep(0.01)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work

    asyncio.run(cancelled())


class Till:
    """Tools with a state."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def greet(self, word: str) -> str:
        """Greets."""
        return f"{word} from {self.name}"

    @tool
    async def wait(self, word: str, context: CallContext) -> str:
        """Greets, too."""
        return f"{word} from {self.name} to {context.principal.name}"

    @classmethod
    @tool
    def describe(cls, word: str) -> str:
        """Describes the class."""
        return f"{word} {cls.__name__}"


def test_methods_of_an_instance_run_with_the_instance() -> None:
    till, context = Till("one"), CallContext(principal=Principal("ann"))
    assert outcome(till.greet, {"word": "hello"}) == Answered("hello from one")
    assert outcome(till.wait, {"word": "hello"}, context) == Answered("hello from one to ann")
    assert outcome(Till.describe, {"word": "a"}) == Answered("a Till")


def test_a_method_without_an_instance_is_refused_with_what_to_write() -> None:
    with pytest.raises(DefinitionError) as refused:
        Functions([Till.greet])
    assert "instance.greet" in refused.value.hint


def test_an_unexpected_exception_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def leak_the_password() -> None:
        raise RuntimeError("password=hunter2")

    outcome(leak_the_password, {})
    (record,) = caplog.records
    assert record.name.startswith("ferrule.")
    assert record.levelname == "ERROR"
    assert "leak_the_password" in record.getMessage()
    assert "hunter2" not in record.getMessage()
    assert "in leak_the_password" in caplog.text


def test_what_a_tool_means_to_say_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def meant() -> None:
        raise ToolError("the city is not on the map")

    outcome(meant, {})
    assert caplog.records == []


@pytest.mark.parametrize("option", ["threads", "tenant_threads", "processes"])
def test_a_bound_that_no_call_can_meet_is_refused(option: str) -> None:
    with pytest.raises(DefinitionError, match=f"{option} must be 1 or more"):
        Functions([], **{option: 0})  # pyright: ignore[reportArgumentType]
