"""Row 24: a tool that exits, hangs, forks or takes memory costs its own calls, and nothing of anybody else's."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule.sources.functions import Functions
from lab import guest_tools
from server.client import Client, gateway_of, scripted_engine
from server.gateway_process import ANN as ANN_OF_PROCESS
from server.gateway_process import EVE as EVE_OF_PROCESS
from server.gateway_process import gateway_process
from server.keys import bearer, config_with_keys
from threats.gateway_fixture import ANN, EVE, KEYS
from waiting import MOMENT, eventually, until

CALLS = 40
HUNG = 64
MEMORY = 768 << 20


@asynccontextmanager
async def gateway_with(*functions: Any, **options: Any) -> AsyncGenerator[Client]:
    sources = [Functions([guest_tools.look, *functions], **options)]
    async with gateway_of(scripted_engine(), sources=sources, config=config_with_keys(*KEYS)) as client:
        yield client


async def call(client: Client, who: str, name: str, seconds: float = MOMENT, **arguments: Any) -> tuple[int, Any]:
    body = {"name": name, "arguments": arguments, "deadline": time.time() + seconds}
    answer = await client.post("/v1/tools/call", body, bearer(who))
    return answer.status, answer.json()


async def cost_of_calls(client: Client, who: str) -> float:
    """The CPU seconds of calls of a good tool, all of which must succeed."""
    started = time.process_time()
    for _ in range(CALLS):
        status, body = await call(client, who, "look", place="Rome")
        assert (status, body["content"]) == (200, "seen Rome")
    return time.process_time() - started


def test_hung_calls_of_one_tenant_cost_another_nothing() -> None:
    opened = threading.Event()

    def hang() -> None:
        """Hangs."""
        opened.wait()

    async def scenario() -> None:
        async with gateway_with(hang) as client:
            await cost_of_calls(client, ANN)
            quiet = min([await cost_of_calls(client, ANN) for _ in range(3)])
            hanging = [asyncio.ensure_future(call(client, EVE, "hang")) for _ in range(HUNG)]
            # As many as there are threads run; the others are refused without running.
            await until(lambda: sum(one.done() for one in hanging) == HUNG - 16)
            attacked = min([await cost_of_calls(client, ANN) for _ in range(3)])
            assert attacked < 2 * quiet
            # The tenant itself still has its other tools.
            await cost_of_calls(client, EVE)
            opened.set()
            assert Counter(status for status, _ in await asyncio.gather(*hanging)) == {200: 16, 503: HUNG - 16}

    asyncio.run(scenario())


def test_a_tool_that_exits_ends_only_itself() -> None:
    async def scenario() -> None:
        async with gateway_with(guest_tools.leave) as client:
            for _ in range(3):
                status, body = await call(client, EVE, "leave", code=0)
                assert (status, body["code"]) == (200, "tool_failed")
            await cost_of_calls(client, ANN)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "function, codes",
    [
        (guest_tools.take_memory, {"tool_failed", "worker_died"}),
        (guest_tools.fork, {""}),
        (guest_tools.hang_apart, {"timeout"}),
    ],
    ids=["memory", "forks", "hangs"],
)
def test_a_guest_in_a_process_of_its_own_costs_others_nothing(function: Any, codes: set[str]) -> None:
    name = function.definition.name

    async def scenario() -> None:
        async with gateway_with(function, processes=2, memory_bytes=MEMORY) as client:
            seconds = 3.0 if name == "hang_apart" else MOMENT
            guests = [asyncio.ensure_future(call(client, EVE, name, seconds)) for _ in range(2)]
            await cost_of_calls(client, ANN)
            for _, body in await asyncio.gather(*guests):
                assert body.get("code", body.get("error", {}).get("code")) in codes
            await until(lambda: client.gateway.tool_catalog.source.loads == ())
            await cost_of_calls(client, ANN)

    asyncio.run(scenario())


def test_a_gateway_full_of_guests_serves_the_others_is_never_restarted_and_ends_at_sigterm(tmp_path: Path) -> None:
    with gateway_process(tmp_path, Path(guest_tools.__file__), more=f"functions_memory_bytes = {MEMORY}") as gateway:
        attacks = [("hang", EVE_OF_PROCESS)] * (HUNG // 2) + [("hang", ANN_OF_PROCESS)] * (HUNG // 2)
        attacks += [("leave", EVE_OF_PROCESS), ("leave_async", EVE_OF_PROCESS), ("fork", EVE_OF_PROCESS)]
        attacks += [("take_memory", EVE_OF_PROCESS), ("hang_apart", EVE_OF_PROCESS)]
        threads = [
            threading.Thread(target=gateway.call, args=(name, who), kwargs={"code": 0} if "leave" in name else {})
            for name, who in attacks
        ]
        for thread in threads:
            thread.start()
        for who in (ANN_OF_PROCESS, EVE_OF_PROCESS):
            assert [gateway.call("look", who, place="Rome")[0] for _ in range(20)] == [200] * 20
        for thread in threads:
            thread.join()
        eventually(lambda: gateway.request("GET", "/readyz")[1]["tools"]["hung"] == 32)
        assert gateway.request("GET", "/readyz")[1]["status"] == "ready"
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(MOMENT) == 0
        assert [line["event"] for line in gateway.lines()].count("start") == 1
