"""HttpClient: retries only if nothing was delivered, never waits forever, and closes connections that are abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from engines.providers import IMPATIENT, QUICK, CannedResponse, Provider, ReceivedRequest, json_response, provider
from ferrule.engines.http import Deadlines, HttpClient
from ferrule.engines.sync import run
from ferrule.errors import EngineError, EngineTimeoutError, EngineUnavailableError
from waiting import PATIENCE

BUSY = (429, 503, 529)
REFUSED = (400, 401, 404, 500)


def run_client(
    answers: list[CannedResponse], work: Callable[[HttpClient], Awaitable[Any]], deadlines: Deadlines = QUICK
) -> tuple[Any, list[ReceivedRequest]]:
    """Run the work with a client; return its result or error, and the requests that the provider received."""

    async def all_of_it() -> tuple[Any, list[ReceivedRequest]]:
        async with provider(*answers) as served:
            http = HttpClient(served.url, {"X-Ours": "yes"}, deadlines)
            try:
                return await work(http), served.requests
            except EngineError as refusal:
                return refusal, served.requests
            finally:
                await http.close()

    return asyncio.run(all_of_it())


async def post(http: HttpClient) -> Any:
    return await http.post("/x", {"a": 1})


async def read_stream(http: HttpClient) -> bytes:
    return b"".join([data async for data in http.stream("/x", {"a": 1})])


@pytest.mark.parametrize("status", BUSY)
@pytest.mark.parametrize("work", [post, read_stream])
def test_a_request_to_a_busy_engine_is_retried(status: int, work: Callable[[HttpClient], Awaitable[Any]]) -> None:
    result, requests = run_client([json_response({}, status), json_response({"b": 2})], work)
    assert result in ({"b": 2}, b'{"b": 2}')
    assert [request_sent.body for request_sent in requests] == [{"a": 1}] * 2


def test_an_engine_that_stays_busy_is_a_retryable_error() -> None:
    result, requests = run_client([json_response({}, 429)] * 9, post)
    assert isinstance(result, EngineUnavailableError)
    assert result.retryable
    assert len(requests) == QUICK.tries


@pytest.mark.parametrize("status", REFUSED)
def test_a_refusal_is_not_retried_and_its_message_is_reported(status: int) -> None:
    result, requests = run_client([json_response({"error": "no such model"}, status)] * 2, post)
    assert isinstance(result, EngineError)
    assert (result.is_refusal, len(requests)) == (True, 1)
    assert "no such model" in result.message


@pytest.mark.parametrize("status", [*BUSY, *REFUSED])
def test_a_refusal_keeps_the_status_and_the_body_that_the_engine_sent(status: int) -> None:
    result, _ = run_client([json_response({"error": "no such model"}, status)] * 9, post)
    assert isinstance(result, EngineError)
    assert (result.upstream_status, result.upstream_body) == (status, '{"error": "no such model"}')


def test_an_engine_that_sent_no_status_has_none_in_its_error() -> None:
    result, _ = run_client([CannedResponse((b"half",), drops=True)], read_stream)
    assert isinstance(result, EngineError)
    assert (result.upstream_status, result.upstream_body) == (None, "")


def test_an_unreachable_address_is_reported_with_a_hint() -> None:
    async def nobody() -> None:
        http = HttpClient("http://127.0.0.1:1", {}, QUICK)
        try:
            await http.get("/x")
        finally:
            await http.close()

    with pytest.raises(EngineUnavailableError) as caught:
        asyncio.run(nobody())
    assert "running" in caught.value.hint


def test_a_stall_after_the_first_byte_is_not_retried() -> None:
    result, requests = run_client(
        [CannedResponse((b"half",), stalls=True), CannedResponse((b"whole",))], read_stream, IMPATIENT
    )
    assert isinstance(result, EngineTimeoutError)
    assert len(requests) == 1


def test_a_connection_lost_in_mid_answer_is_an_engine_error_and_not_retried() -> None:
    result, requests = run_client([CannedResponse((b"half",), drops=True), CannedResponse((b"whole",))], read_stream)
    assert isinstance(result, EngineError)
    assert (result.code, len(requests)) == ("broken_off", 1)


def test_the_total_deadline_ends_a_stream_without_cancelling_its_reader() -> None:
    async def slowly(http: HttpClient) -> str:
        try:
            async for _ in http.stream("/x", {}):
                # Longer than the deadline: time that the reader spends between two reads does not count.
                await asyncio.sleep(0.3)
        except EngineTimeoutError:
            return "timeout"
        return "over"

    result, _ = run_client([CannedResponse((b"a",), stalls=True)], slowly, replace(QUICK, total=0.2))
    assert result == "timeout"


def test_the_first_byte_has_a_deadline_of_its_own() -> None:
    patient_between = replace(IMPATIENT, between=20)
    result, requests = run_client(
        [CannedResponse(delays_status=True), CannedResponse((b"late",))], read_stream, patient_between
    )
    assert isinstance(result, EngineTimeoutError)
    assert len(requests) == 1


def test_headers_go_with_every_request() -> None:
    _, requests = run_client([json_response({}), CannedResponse((b"x",))], _both)
    assert [request_sent.headers["X-Ours"] for request_sent in requests] == ["yes", "yes"]


async def _both(http: HttpClient) -> None:
    await post(http)
    await read_stream(http)


def test_an_answer_that_is_no_json_is_the_engines_error() -> None:
    result, _ = run_client([CannedResponse((b"<html>",))], post)
    assert isinstance(result, EngineError)
    assert "did not answer with JSON" in result.message


def _expect_disconnect(disconnect: Callable[[HttpClient], Awaitable[None]]) -> Provider:
    async def work() -> Provider:
        async with provider(CannedResponse((b"half",), stalls=True)) as served:
            http = HttpClient(served.url, {}, QUICK)
            await disconnect(http)
            # The provider must notice it while the session is still open for other requests.
            await asyncio.wait_for(served.disconnected.wait(), PATIENCE)
            await http.close()
            return served

    return asyncio.run(work())


def test_closing_a_stream_closes_its_connection() -> None:
    async def leave(http: HttpClient) -> None:
        data = http.stream("/x", {})
        assert await anext(data) == b"half"
        await data.aclose()

    assert _expect_disconnect(leave).disconnected.is_set()


def test_cancelling_the_reader_closes_the_connection() -> None:
    async def leave(http: HttpClient) -> None:
        started = asyncio.Event()

        async def reading() -> None:
            async for _ in http.stream("/x", {}):
                started.set()

        task = asyncio.create_task(reading())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert _expect_disconnect(leave).disconnected.is_set()


def test_one_client_can_be_used_from_two_loops() -> None:
    async def both() -> tuple[Any, Any]:
        async with provider(json_response({"n": 1}), json_response({"n": 2})) as served:
            http = HttpClient(served.url, {}, QUICK)
            there = await asyncio.to_thread(run, post(http))
            here = await post(http)
            await http.close()
            return there, here

    assert asyncio.run(both()) == ({"n": 1}, {"n": 2})


def test_a_request_goes_out_on_a_new_connection_when_those_kept_open_have_died() -> None:
    """A server that restarts, or ends idle connections, leaves several dead ones behind."""

    async def work() -> tuple[list[Any], int]:
        connections = 0
        together = asyncio.Barrier(3)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            number = connections
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
            if number <= 3:
                await together.wait()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()
            # It looks alive until the next request is on its way.
            await reader.read(1)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        http = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", {}, replace(QUICK, tries=1))
        answers = list(await asyncio.gather(post(http), post(http), post(http)))
        answers.append(await post(http))
        await http.close()
        server.close()
        return answers, connections

    assert asyncio.run(work()) == ([{}, {}, {}, {}], 4)
