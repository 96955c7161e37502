"""Row 16: keys, passwords and internal errors appear neither in answers nor in logs nor in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import CallContext
from ferrule.core.event import Event
from ferrule.core.outcome import Outcome
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.errors import EngineUnavailableError
from ferrule.server.app import application, routes_of
from ferrule.server.config.config import EngineConfig
from ferrule.server.observability.logs import Log
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.startup import open_gateway
from ferrule.sources.fake import FakeSource
from server.client import Client, scripted_engine
from server.keys import bearer, config_with_keys, key
from threats.gateway_fixture import CHAT, EVERYTHING, READ, USER, bodies, call, fill_path

KEY, OTHER_KEY, COOKIE = "canary-key-1f6a", "canary-stale-9c1e", "canary-cookie-77d2"
ENVIRONMENT, ADDRESS, INSIDE = "canary-environment-5b0d", "canary-address-3e8f", "canary-inside-aa41"
CANARIES = (KEY, OTHER_KEY, COOKIE, ENVIRONMENT, ADDRESS, INSIDE)


class LeakyEngine(Engine):
    """Fails with secrets in its error message."""

    traits = Traits(name="leaky", honours=ALL_CHOICES)

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        raise self.error
        yield  # pragma: no cover

    async def close(self) -> None:
        return


def leak(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    raise RuntimeError(f"could not connect with {INSIDE}")


def collect_output(engine: Engine, file: Path) -> tuple[str, list[str]]:
    """All responses with their headers, and all lines of the log."""
    lines: list[str] = []
    config = config_with_keys(key("ann", KEY, **EVERYTHING))
    config = replace(config, ledger=str(file), engines=(EngineConfig(name="e0", use=f"e0?key={ADDRESS}"),))

    async def scenario() -> str:
        output: list[str] = []
        telemetry = Telemetry(log=Log(lines.append))
        sources = [FakeSource([READ], leak)]
        async with open_gateway(config, sources, load=lambda use: engine, telemetry=telemetry) as gateway:
            client = Client(application(gateway), gateway)
            for headers in (bearer(KEY), bearer(OTHER_KEY), {"x-api-key": OTHER_KEY}, {}):
                all_headers = {**headers, "cookie": COOKIE, "x-secret": COOKIE}
                for route in routes_of(gateway):
                    for body in bodies(route):
                        # In the URL too, which many servers log.
                        path = f"{fill_path(route.path)}?key={OTHER_KEY}"
                        answer = await client.request(route.method, path, body, all_headers)
                        output.append(f"{answer.status} {dict(answer.headers)} {answer.body!r}")
                        streamed = await client.request(route.method, path, {**body, "stream": True}, all_headers)
                        output.append(f"{streamed.status} {dict(streamed.headers)} {streamed.body!r}")
            output.append(repr(gateway.config))
            output.append(repr(gateway))
        return "\n".join(output)

    return asyncio.run(scenario()), lines


@pytest.mark.parametrize(
    "engine",
    [
        LeakyEngine(RuntimeError(f"connect to postgresql://u:{INSIDE}@db failed")),
        LeakyEngine(KeyError(INSIDE)),
        scripted_engine(*[call("read", what="x"), "Done."] * 200),
    ],
    ids=["engine error", "another engine error", "tool error"],
)
def test_no_secret_appears_in_any_output(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_CANARY", ENVIRONMENT)
    monkeypatch.setenv("OPENAI_API_KEY", ENVIRONMENT)
    file = tmp_path / "ledger.db"
    output, lines = collect_output(engine, file)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert lines
    for canary in CANARIES:
        assert canary not in output, canary
        assert canary not in "".join(lines), canary
        assert canary.encode() not in stored, canary


def test_an_unexpected_error_shows_only_the_request_id(tmp_path: Path) -> None:
    output, lines = collect_output(LeakyEngine(RuntimeError(INSIDE)), tmp_path / "ledger.db")
    assert "500 " in output
    assert "Traceback" not in output
    assert "RuntimeError" not in output
    assert any("unexpected" in line for line in lines)


def test_engine_errors_reach_only_keys_that_may_use_the_model(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        config = config_with_keys(key("ann", KEY, models=("other",)))
        engine = LeakyEngine(EngineUnavailableError("http://10.0.0.7:8001 cannot be reached"))
        async with open_gateway(config, (), load=lambda use: engine) as gateway:
            client = Client(application(gateway), gateway)
            answer = await client.post(CHAT, {"model": "e0", "messages": USER}, bearer(KEY))
            assert b"10.0.0.7" not in answer.body
            return [answer.status]

    assert asyncio.run(scenario()) == [403]
