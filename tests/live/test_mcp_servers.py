"""The reference MCP servers and one of ours, over stdio and HTTP, with both protocol versions, all at once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ferrule.core.context import Progress
from ferrule.core.outcome import Answered
from ferrule.run.executor import ToolExecutor
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
from ferrule.sources.mcp.servers import McpServers
from live.mcp_world import (
    answer,
    call_tool,
    everything,
    everything_on_http,
    filesystem,
    free_port,
    hanging,
    open_servers,
    own,
    own_on_http,
    start_waiting_call,
    web,
)
from waiting import until

pytestmark = pytest.mark.live


def test_many_servers_at_once_give_one_list_and_one_that_hangs_delays_nobody(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello", encoding="utf-8")

    async def story() -> None:
        port = free_port()
        with own_on_http(port):
            servers = [own("own"), own("own_"), everything(), filesystem(tmp_path), web(port), hanging()]
            async with McpServers(servers, settle_seconds=0) as source:
                await until(lambda: sum(one.state == "ready" for one in source.servers) == 5)
                ready = {one.name: one for one in source.servers if one.state == "ready"}
                assert set(ready) == {"own", "own_", "every", "files", "web"}
                assert {one.protocol_version for one in ready.values()} == {"2025-11-25", "2026-07-28"}
                tools = await source.tools()
                assert len(tools) >= 90
                assert len({one.name for one in tools}) == len(tools)

                executor = ToolExecutor(source)
                admitted = await executor.refresh()
                assert len(admitted) == len(tools), executor.notices

                sums = await asyncio.gather(*(answer(source, name, a=2, b=3) for name in ("own_add", "web_add")))
                assert sums == [{"total": 5}, {"total": 5}]
                assert await answer(source, "every_get-sum", a=2, b=3) == "The sum of 2 and 3 is 5."
                read = await answer(source, "files_read_text_file", path=str(tmp_path / "note.txt"))
                assert read == {"content": "hello"}

                # own_ + add and own + _add would be one name.
                (other,) = [one.tools[0] for one in source.servers if one.name == "own_"]
                assert not other.startswith("own_")
                mine, theirs = await answer(source, "own_pid"), await answer(source, other.replace("_add", "_pid"))
                assert mine["result"] != theirs["result"]
                assert any(notice == f"own_: 'add' is offered as {other}" for notice in source.notices)
                assert any(notice.startswith("hangs: connecting") for notice in source.notices)

                effects = {one.name: one.side_effects for one in tools}
                assert not effects["files_read_text_file"]
                assert effects["files_write_file"]
                # It claims to be read-only, but the server is not trusted.
                assert effects["own_add"]

    asyncio.run(story())


def test_progress_and_the_idempotency_key_arrive_over_both_transports() -> None:
    async def story() -> None:
        port = free_port()
        with own_on_http(port):
            async with open_servers(own(), web(port), everything()) as source:
                for name in ("own", "web"):
                    received: list[Progress] = []
                    assert isinstance(await call_tool(source, f"{name}_steps", received.append), Answered)
                    assert received == [Progress(step, 3, f"step {step}") for step in (1, 2, 3)]
                    assert await answer(source, f"{name}_key") == {"result": "call-1"}
                received = []
                await call_tool(source, "every_trigger-long-running-operation", received.append, duration=0.4, steps=2)
                assert [one.done for one in received] == [1, 2]

    asyncio.run(story())


def test_a_cancelled_call_is_cancelled_on_the_server_and_the_connection_stays() -> None:
    async def story() -> None:
        port = free_port()
        with own_on_http(port):
            async with open_servers(own(), web(port)) as source:
                for name in ("own", "web"):
                    work = await start_waiting_call(source, name, name)
                    work.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await work
                    assert await answer(source, f"{name}_cancellations") == {"result": [name]}

    asyncio.run(story())


def test_what_a_server_asks_is_answered_in_both_eras_and_declined_by_default() -> None:
    questions: list[Elicitation] = []

    async def elicit(question: Elicitation) -> ElicitAnswer:
        questions.append(question)
        return ElicitAnswer("accept", {"name": "Ann"})

    async def story() -> None:
        port = free_port()
        with own_on_http(port):
            servers = [own(), web(port), everything()]
            async with open_servers(*servers, elicit=elicit) as source:
                for name in ("own", "web"):
                    assert await answer(source, f"{name}_greet") == {"result": "hello Ann"}
                await answer(source, "every_trigger-elicitation-request")
                assert [one.server for one in questions] == ["own", "web", "every"]
                assert all(one.context and one.context.call_id == "call-1" for one in questions)
            async with open_servers(*servers) as source:
                decline = await call_tool(source, "own_greet")
                assert isinstance(decline, Answered)
                assert "declin" in json.dumps(decline.content)

    asyncio.run(story())


def test_images_are_media_and_structure_comes_first() -> None:
    async def story() -> None:
        async with open_servers(everything()) as source:
            picture = await call_tool(source, "every_get-tiny-image")
            assert isinstance(picture, Answered)
            assert len(json.dumps(picture.content)) < 1_000
            assert [one.media_type for one in picture.media] == ["image/png"]
            assert picture.media[0].content.startswith(b"\x89PNG")
            weather = await answer(source, "every_get-structured-content", location="New York")
            assert set(weather) == {"temperature", "conditions", "humidity"}
            wrong = await call_tool(source, "every_echo")
            assert isinstance(wrong, Answered)
            assert wrong.is_error

    asyncio.run(story())


def test_a_server_of_the_older_era_on_http_keeps_its_session_and_gets_a_new_one_after_a_restart() -> None:
    async def story() -> None:
        port = free_port()
        async with McpServers([web(port)], settle_seconds=0) as source:
            for _ in range(2):
                with everything_on_http(port):
                    await until(lambda: source.servers[0].state == "ready")
                    assert source.servers[0].protocol_version == "2025-11-25"
                    assert await answer(source, "web_echo", message="hi") == "Echo: hi"
                lost = await call_tool(source, "web_echo", message="hi")
                assert not isinstance(lost, Answered)
                await until(lambda: source.servers[0].state == "failed")

    asyncio.run(story())
