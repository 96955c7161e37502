"""/healthz and /readyz: whether a gateway is alive, and whether it should receive requests."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from ferrule.engines.fake import FakeEngine
from ferrule.errors import EngineUnavailableError, LedgerUnavailableError
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, KeyConfig, ModelConfig
from ferrule.server.observability.health import Readiness
from ferrule.server.observability.metrics_api import collect_counts, render_page
from ferrule.server.startup import open_gateway
from ferrule.sources.functions import Functions
from server.client import Client, gateway_of, scripted_engine
from waiting import until

KEY = KeyConfig(name="ann", sha256="0" * 64)


def config(*uses: str, keys: tuple[KeyConfig, ...] = ()) -> Config:
    engines = tuple(EngineConfig(name=f"e{at}", use=use) for at, use in enumerate(uses))
    return Config(
        engines=engines, models=(ModelConfig(name="m", engines=tuple(one.name for one in engines)),), keys=keys
    )


@asynccontextmanager
async def client_with_engines(engines: dict[str, FakeEngine], gateway_config: Config) -> AsyncGenerator[Client]:
    async with open_gateway(gateway_config, (), load=engines.__getitem__) as gateway:
        yield Client(application(gateway), gateway)


async def probe(client: Client) -> dict[str, object]:
    """The status, without the cache."""
    return await Readiness(client.gateway).status()


def test_a_process_that_serves_is_alive_and_ready_without_a_key() -> None:
    async def scenario() -> None:
        gateway_config = config("e0", keys=(KEY,))
        async with gateway_of(scripted_engine(), config=gateway_config) as client:
            alive, ready = await client.get("/healthz"), await client.get("/readyz")
        assert (alive.status, alive.json()) == (200, {"status": "alive"})
        assert ready.status == 200
        assert ready.json() == {
            "status": "ready",
            "draining": False,
            "models": {"ready": 1, "of": 1},
            "engines": {"well": 1, "of": 1},
            "ledger": "answers",
            "tools": {"hung": 0},
        }

    asyncio.run(scenario())


def test_hung_tools_are_counted_and_do_not_take_the_gateway_out_of_rotation() -> None:
    opened = threading.Event()

    def hang() -> None:
        """Hangs."""
        opened.wait()

    async def scenario() -> None:
        async with gateway_of(scripted_engine(), sources=[Functions([hang])]) as client:
            calls = [
                client.post("/v1/tools/call", {"name": "hang", "arguments": {}, "deadline": time.time() + 0.2})
                for _ in range(3)
            ]
            assert [answer.status for answer in await asyncio.gather(*calls)] == [504] * 3
            status = await probe(client)
            assert (status["status"], status["tools"]) == ("ready", {"hung": 3})
            page = render_page(collect_counts(client.gateway)).decode()
            assert 'ferrule_tool_threads_hung{tool="hang"} 3.0' in page
            opened.set()
            await until(lambda: not client.gateway.tool_catalog.source.loads)

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_a_served_host(path: str) -> None:
    async def scenario() -> None:
        async with gateway_of(scripted_engine()) as client:
            assert (await client.get(path, {"host": "evil.example"})).status == 403

    asyncio.run(scenario())


def test_sick_engines_are_counted_and_do_not_take_the_gateway_out_of_rotation() -> None:
    async def scenario() -> None:
        async with gateway_of(scripted_engine(), scripted_engine(), config=config("e0", "e1")) as client:
            first, second = client.gateway.router.replicas
            first.health.record_failure(EngineUnavailableError("gone"))
            assert (await probe(client))["models"] == {"ready": 1, "of": 1}
            second.health.record_failure(EngineUnavailableError("gone"))
            status = await probe(client)
        assert status["status"] == "ready"
        assert status["models"] == {"ready": 0, "of": 1}
        assert status["engines"] == {"well": 0, "of": 2}

    asyncio.run(scenario())


def test_an_engine_whose_port_accepts_no_connection_is_unhealthy() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            use = f"vllm:http://127.0.0.1:{port}"
            engines = {use: scripted_engine()}
            async with client_with_engines(engines, config(use)) as client:
                assert (await probe(client))["engines"] == {"well": 1, "of": 1}
                server.close()
                client.gateway.engine_probe.clock = lambda: math.inf
                assert (await probe(client))["engines"] == {"well": 0, "of": 1}

    asyncio.run(scenario())


def test_a_ledger_that_fails_or_times_out_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async def fail(*_: object) -> None:
            raise LedgerUnavailableError("a secret DSN")

        async def hang(*_: object) -> None:
            await asyncio.sleep(60)

        monkeypatch.setattr("ferrule.server.observability.health._PROBE_TIMEOUT", 0.01)
        async with gateway_of(scripted_engine()) as client:
            for way, state in ((fail, "fails"), (hang, "is silent")):
                with monkeypatch.context() as patch:
                    patch.setattr(type(client.gateway.ledger), "load", way)
                    answer = await probe(client)
                assert (answer["status"], answer["ledger"]) == ("ready", state)
            assert client.gateway.telemetry.counts.values["ferrule_ledger_errors"] == {("ledger_unavailable",): 1}

    asyncio.run(scenario())


def test_a_gateway_that_drains_is_alive_and_not_ready() -> None:
    async def scenario() -> None:
        async with gateway_of(scripted_engine()) as client:
            client.gateway.telemetry.drain.begin()
            alive, ready = await client.get("/healthz"), await client.get("/readyz")
        assert alive.status == 200
        assert (ready.status, ready.json()["draining"]) == (503, True)

    asyncio.run(scenario())


def test_many_probes_load_the_ledger_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with gateway_of(scripted_engine()) as client:
            ledger, loads = client.gateway.ledger, 0
            load = type(ledger).load

            async def count_load(self: object, *arguments: object) -> object:
                nonlocal loads
                loads += 1
                return await load(self, *arguments)  # type: ignore[arg-type]

            monkeypatch.setattr(type(ledger), "load", count_load)
            await asyncio.gather(*(client.get("/readyz") for _ in range(50)))
        assert loads <= 3

    asyncio.run(scenario())
