"""Real servers that misbehave: they change, flood, die and hang, and each affects only itself."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from ferrule.core.outcome import Answered, NotDelivered, Unknown
from ferrule.sources.mcp.servers import McpServers
from live.mcp_world import answer, call_tool, free_port, open_servers, own, own_on_http, start_waiting_call, web
from pace import slowness
from waiting import until

pytestmark = pytest.mark.live
MEGABYTE = 1024 * 1024


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", ["own", "web"])
def test_a_changed_definition_is_quarantined_when_the_server_reports_it(name: str) -> None:
    async def story() -> None:
        port = free_port()
        with own_on_http(port):
            async with open_servers(own() if name == "own" else web(port)) as source:
                assert await answer(source, f"{name}_echo", message="hi") == {"result": "hi"}
                await answer(source, f"{name}_change")
                await until(lambda: bool(source.notices))
                assert "'echo' has changed since it was pinned" in source.notices[0]
                assert f"{name}_echo" not in [one.name for one in await source.tools()]
                refused = await call_tool(source, f"{name}_echo", message="hi")
                assert isinstance(refused, NotDelivered)
                source.repin(name)
                assert isinstance(await call_tool(source, f"{name}_echo", message="hi"), Answered)

    asyncio.run(story())


@pytest.mark.parametrize("name", ["own", "web"])
def test_fifty_megabytes_harm_nobody(name: str) -> None:
    async def worst(stop: asyncio.Event) -> tuple[float, int]:
        """The longest time that the event loop was blocked (in CPU seconds), and the growth of the process in bytes."""
        longest, before, most, first = 0.0, time.thread_time(), 0, resident()
        while not stop.is_set():
            await asyncio.sleep(0.005)
            now = time.thread_time()
            longest, before, most = max(longest, now - before), now, max(most, resident() - first)
        return longest, most

    async def story() -> None:
        port = free_port()
        with own_on_http(port):
            async with open_servers(own() if name == "own" else web(port)) as source:
                stop = asyncio.Event()
                watching = asyncio.ensure_future(worst(stop))
                flood, beside = await asyncio.gather(
                    call_tool(source, f"{name}_big", megabytes=50), answer(source, f"{name}_add", a=1, b=1)
                )
                stop.set()
                assert isinstance(flood, Answered)
                assert (flood.is_error, flood.code) == (True, "too_large")
                assert beside == {"total": 2}
                pause, grown = await watching
                assert pause < 2 * slowness()
                assert grown < 40 * MEGABYTE
                stream = await call_tool(source, f"{name}_big_after_progress", megabytes=20)
                assert isinstance(stream, Answered)
                assert (stream.is_error, stream.code) == (True, "too_large")
                whole = await answer(source, f"{name}_big", megabytes=1)
                assert len(whole["result"]) == MEGABYTE

    asyncio.run(story())


def test_a_process_that_dies_in_a_call_leaves_it_unknown_and_is_started_again() -> None:
    async def story() -> None:
        async with open_servers(own()) as source:
            first = (await answer(source, "own_pid"))["result"]
            work = await start_waiting_call(source, "own", "m")
            os.kill(first, signal.SIGKILL)
            lost = await work
            assert isinstance(lost, Unknown)
            after = await call_tool(source, "own_add", a=1, b=1)
            assert isinstance(after, NotDelivered)
            await until(lambda: source.servers[0].state == "failed")
            await until(lambda: source.servers[0].state == "ready")
            assert (await answer(source, "own_pid"))["result"] != first

    asyncio.run(story())


def test_a_web_server_that_is_killed_in_a_call_leaves_it_unknown_and_is_found_again() -> None:
    async def story() -> None:
        port = free_port()
        async with McpServers([web(port)], settle_seconds=0) as source:
            with own_on_http(port) as process:
                await until(lambda: source.servers[0].state == "ready")
                work = await start_waiting_call(source, "web", "m")
                process.kill()
                lost = await work
                assert isinstance(lost, Unknown)
                # A pooled connection may accept the request before it is known to be dead: then the outcome is unknown.
                assert isinstance(await call_tool(source, "web_add", a=1, b=1), NotDelivered | Unknown)
                await until(lambda: source.servers[0].state == "failed")
                assert isinstance(await call_tool(source, "web_add", a=1, b=1), NotDelivered)
            with own_on_http(port):
                await until(lambda: source.servers[0].state == "ready")
                assert await answer(source, "web_add", a=1, b=1) == {"total": 2}

    asyncio.run(story())


def test_a_call_that_times_out_is_unknown_and_the_server_is_cancelled() -> None:
    async def story() -> None:
        async with open_servers(own(call=3)) as source:
            late = await call_tool(source, "own_wait", mark="late", seconds=60)
            assert late == Unknown("no answer within 3 seconds", code="timeout")
            assert await answer(source, "own_cancellations") == {"result": ["late"]}

    asyncio.run(story())


def test_closing_ends_every_process() -> None:
    async def story() -> int:
        async with open_servers(own()) as source:
            return (await answer(source, "own_pid"))["result"]

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(story()), 0)
