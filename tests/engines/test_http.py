"""HTTP to an engine: asked again only where nothing was delivered, never waited on without end, closed when left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from engines.providers import IMPATIENT, QUICK, Answer, Asked, Provider, provider, whole
from ferrule.engines.http import Deadlines, Http
from ferrule.engines.sync import run
from ferrule.errors import EngineError, EngineTimeoutError, EngineUnavailableError

BUSY = (429, 503, 529)
REFUSED = (400, 401, 404, 500)


def done(
    answers: list[Answer], work: Callable[[Http], Awaitable[Any]], deadlines: Deadlines = QUICK
) -> tuple[Any, list[Asked]]:
    """What the work came to, an error included, and what the provider was asked."""

    async def all_of_it() -> tuple[Any, list[Asked]]:
        async with provider(*answers) as served:
            http = Http(served.url, {"X-Ours": "yes"}, deadlines)
            try:
                return await work(http), served.asked
            except EngineError as refusal:
                return refusal, served.asked
            finally:
                await http.close()

    return asyncio.run(all_of_it())


async def posted(http: Http) -> Any:
    return await http.post("/x", {"a": 1})


async def read(http: Http) -> bytes:
    return b"".join([data async for data in http.stream("/x", {"a": 1})])


@pytest.mark.parametrize("status", BUSY)
@pytest.mark.parametrize("work", [posted, read])
def test_a_busy_engine_is_asked_again(status: int, work: Callable[[Http], Awaitable[Any]]) -> None:
    found, asked = done([whole({}, status), whole({"b": 2})], work)
    assert found in ({"b": 2}, b'{"b": 2}')
    assert [sent.body for sent in asked] == [{"a": 1}] * 2


def test_an_engine_that_stays_busy_is_given_up_and_may_be_tried_later() -> None:
    found, asked = done([whole({}, 429)] * 9, posted)
    assert isinstance(found, EngineUnavailableError)
    assert found.retryable
    assert len(asked) == QUICK.tries


@pytest.mark.parametrize("status", REFUSED)
def test_a_refusal_is_not_asked_again_and_its_words_are_told(status: int) -> None:
    found, asked = done([whole({"error": "no such model"}, status)] * 2, posted)
    assert isinstance(found, EngineError)
    assert (found.code, len(asked)) == ("engine_refused", 1)
    assert "no such model" in found.message


def test_nobody_at_the_address_is_told_with_a_hint() -> None:
    async def nobody() -> None:
        http = Http("http://127.0.0.1:1", {}, QUICK)
        try:
            await http.get("/x")
        finally:
            await http.close()

    with pytest.raises(EngineUnavailableError) as caught:
        asyncio.run(nobody())
    assert "running" in caught.value.hint


def test_once_a_byte_has_come_a_stall_is_not_asked_again() -> None:
    found, asked = done([Answer((b"half",), stalls=True), Answer((b"whole",))], read, IMPATIENT)
    assert isinstance(found, EngineTimeoutError)
    assert len(asked) == 1


def test_a_line_that_is_cut_in_mid_answer_is_the_engines_error_and_not_asked_again() -> None:
    found, asked = done([Answer((b"half",), drops=True), Answer((b"whole",))], read)
    assert isinstance(found, EngineError)
    assert (found.code, len(asked)) == ("broken_off", 1)


def test_the_total_deadline_ends_a_stream_that_never_stalls_without_touching_its_reader() -> None:
    async def slowly(http: Http) -> str:
        try:
            async for _ in http.stream("/x", {}):
                # Longer than the deadline: what the reader does between two reads is his own affair.
                await asyncio.sleep(0.3)
        except EngineTimeoutError:
            return "told"
        return "over"

    found, _ = done([Answer((b"a",), stalls=True)], slowly, replace(QUICK, total=0.2))
    assert found == "told"


def test_the_first_byte_has_a_deadline_of_its_own() -> None:
    patient_between = replace(IMPATIENT, between=20)
    found, asked = done([Answer(holds_head=True), Answer((b"late",))], read, patient_between)
    assert isinstance(found, EngineTimeoutError)
    assert len(asked) == 1


def test_headers_go_with_every_request() -> None:
    _, asked = done([whole({}), Answer((b"x",))], _both)
    assert [sent.headers["X-Ours"] for sent in asked] == ["yes", "yes"]


async def _both(http: Http) -> None:
    await posted(http)
    await read(http)


def test_an_answer_that_is_no_json_is_the_engines_error() -> None:
    found, _ = done([Answer((b"<html>",))], posted)
    assert isinstance(found, EngineError)
    assert "not JSON" in found.message


def _hung_up(leave: Callable[[Http], Awaitable[None]]) -> Provider:
    async def work() -> Provider:
        async with provider(Answer((b"half",), stalls=True)) as served:
            http = Http(served.url, {}, QUICK)
            await leave(http)
            # The provider must learn of it while the session is still open for others.
            await asyncio.wait_for(served.hung_up.wait(), 5)
            await http.close()
            return served

    return asyncio.run(work())


def test_closing_a_stream_closes_its_connection() -> None:
    async def leave(http: Http) -> None:
        data = http.stream("/x", {})
        assert await anext(data) == b"half"
        await data.aclose()

    assert _hung_up(leave).hung_up.is_set()


def test_cancelling_whoever_reads_closes_the_connection() -> None:
    async def leave(http: Http) -> None:
        begun = asyncio.Event()

        async def reading() -> None:
            async for _ in http.stream("/x", {}):
                begun.set()

        task = asyncio.create_task(reading())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert _hung_up(leave).hung_up.is_set()


def test_one_engine_can_be_asked_from_two_loops() -> None:
    async def both() -> tuple[Any, Any]:
        async with provider(whole({"n": 1}), whole({"n": 2})) as served:
            http = Http(served.url, {}, QUICK)
            there = await asyncio.to_thread(run, posted(http))
            here = await posted(http)
            await http.close()
            return there, here

    assert asyncio.run(both()) == ({"n": 1}, {"n": 2})
