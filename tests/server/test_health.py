"""Whether a gateway lives, and whether it should be sent requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from ferrule.engines.fake import FakeEngine
from ferrule.errors import EngineUnavailableError, LedgerUnavailableError
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, KeyConfig, ModelConfig
from ferrule.server.observability.health import Readiness
from ferrule.server.startup import opened
from server.client import Client, gateway_of, speaking

KEYED = KeyConfig(name="ann", sha256="0" * 64)


def config(*uses: str, keys: tuple[KeyConfig, ...] = ()) -> Config:
    engines = tuple(EngineConfig(name=f"e{at}", use=use) for at, use in enumerate(uses))
    return Config(
        engines=engines, models=(ModelConfig(name="m", engines=tuple(one.name for one in engines)),), keys=keys
    )


@asynccontextmanager
async def opened_by(engines: dict[str, FakeEngine], made: Config) -> AsyncGenerator[Client]:
    async with opened(made, (), pick=engines.__getitem__) as gateway:
        yield Client(application(gateway), gateway)


async def looked(client: Client) -> dict[str, object]:
    """Without what was seen a moment ago."""
    return await Readiness(client.gateway).now()


def test_a_process_that_serves_is_alive_and_ready_without_a_key() -> None:
    async def scenario() -> None:
        made = config("e0", keys=(KEYED,))
        async with gateway_of(speaking(), config=made) as client:
            alive, ready = await client.get("/healthz"), await client.get("/readyz")
        assert (alive.status, alive.json()) == (200, {"status": "alive"})
        assert ready.status == 200
        assert ready.json() == {
            "status": "ready",
            "draining": False,
            "models": {"ready": 1, "of": 1},
            "engines": {"well": 1, "of": 1},
            "ledger": "answers",
        }

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_come_under_a_name_that_is_served(path: str) -> None:
    async def scenario() -> None:
        async with gateway_of(speaking()) as client:
            assert (await client.get(path, {"host": "evil.example"})).status == 403

    asyncio.run(scenario())


def test_a_model_is_ready_while_one_of_its_engines_is_well() -> None:
    async def scenario() -> None:
        async with gateway_of(speaking(), speaking(), config=config("e0", "e1")) as client:
            first, second = client.gateway.router.replicas
            first.health.failed(EngineUnavailableError("gone"))
            assert (await looked(client))["status"] == "ready"
            second.health.failed(EngineUnavailableError("gone"))
            found = await looked(client)
        assert found["status"] == "not ready"
        assert found["models"] == {"ready": 0, "of": 1}
        assert found["engines"] == {"well": 0, "of": 2}

    asyncio.run(scenario())


def test_an_engine_whose_port_takes_no_connection_is_not_well() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            use = f"vllm:http://127.0.0.1:{port}"
            engines = {use: speaking()}
            async with opened_by(engines, config(use)) as client:
                assert (await looked(client))["status"] == "ready"
                listening.close()
                assert (await looked(client))["engines"] == {"well": 0, "of": 1}

    asyncio.run(scenario())


def test_a_ledger_that_fails_or_is_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async def fails(*_: object) -> None:
            raise LedgerUnavailableError("a secret DSN")

        async def is_silent(*_: object) -> None:
            await asyncio.sleep(60)

        monkeypatch.setattr("ferrule.server.observability.health._PATIENCE", 0.01)
        async with gateway_of(speaking()) as client:
            for way, told in ((fails, "fails"), (is_silent, "is silent")):
                with monkeypatch.context() as patch:
                    patch.setattr(type(client.gateway.ledger), "load", way)
                    answer = await looked(client)
                assert (answer["status"], answer["ledger"]) == ("not ready", told)
            assert client.gateway.watch.counts.sums["ferrule_ledger_errors"] == {("ledger_unavailable",): 1}

    asyncio.run(scenario())


def test_a_gateway_that_drains_is_alive_and_not_ready() -> None:
    async def scenario() -> None:
        async with gateway_of(speaking()) as client:
            client.gateway.watch.drain.begin()
            alive, ready = await client.get("/healthz"), await client.get("/readyz")
        assert alive.status == 200
        assert (ready.status, ready.json()["draining"]) == (503, True)

    asyncio.run(scenario())


def test_a_flood_of_probes_looks_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with gateway_of(speaking()) as client:
            ledger, looks = client.gateway.ledger, 0
            load = type(ledger).load

            async def counted(self: object, *given: object) -> object:
                nonlocal looks
                looks += 1
                return await load(self, *given)  # type: ignore[arg-type]

            monkeypatch.setattr(type(ledger), "load", counted)
            await asyncio.gather(*(client.get("/readyz") for _ in range(50)))
        assert looks <= 3

    asyncio.run(scenario())
