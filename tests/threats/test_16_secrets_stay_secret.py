"""Row 16: keys, passwords and what went wrong inside come out nowhere: not in answers, logs or the ledger."""

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
from ferrule.server.observability.telemetry import Watch
from ferrule.server.startup import opened
from ferrule.sources.fake import FakeSource
from server.client import Client, speaking
from server.keys import bearer, key, keyed
from threats.house import CHAT, EVERYTHING, READ, USER, bodies, call, filled

KEY, OTHER_KEY, COOKIE = "canary-key-1f6a", "canary-stale-9c1e", "canary-cookie-77d2"
ENVIRONMENT, ADDRESS, INSIDE = "canary-environment-5b0d", "canary-address-3e8f", "canary-inside-aa41"
CANARIES = (KEY, OTHER_KEY, COOKIE, ENVIRONMENT, ADDRESS, INSIDE)


class Leaky(Engine):
    """Fails with everything that it knows in its words."""

    traits = Traits(name="leaky", honours=ALL_CHOICES)

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        raise self.error
        yield  # pragma: no cover

    async def close(self) -> None:
        return


def leaking(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    raise RuntimeError(f"could not connect with {INSIDE}")


def everything_said(engine: Engine, where: Path) -> tuple[str, list[str]]:
    """Every answer with its headers, and every line of the log."""
    lines: list[str] = []
    config = keyed(key("ann", KEY, **EVERYTHING))
    config = replace(config, ledger=str(where), engines=(EngineConfig(name="e0", use=f"e0?key={ADDRESS}"),))

    async def scenario() -> str:
        said: list[str] = []
        watch = Watch(log=Log(lines.append))
        sources = [FakeSource([READ], leaking)]
        async with opened(config, sources, pick=lambda use: engine, watch=watch) as gateway:
            client = Client(application(gateway), gateway)
            for headers in (bearer(KEY), bearer(OTHER_KEY), {"x-api-key": OTHER_KEY}, {}):
                given = {**headers, "cookie": COOKIE, "x-secret": COOKIE}
                for route in routes_of(gateway):
                    for body in bodies(route):
                        # In the address too, which many servers log.
                        path = f"{filled(route.path)}?key={OTHER_KEY}"
                        answer = await client.ask(route.method, path, body, given)
                        said.append(f"{answer.status} {dict(answer.headers)} {answer.body!r}")
                        streamed = await client.ask(route.method, path, {**body, "stream": True}, given)
                        said.append(f"{streamed.status} {dict(streamed.headers)} {streamed.body!r}")
            said.append(repr(gateway.config))
            said.append(repr(gateway))
        return "\n".join(said)

    return asyncio.run(scenario()), lines


@pytest.mark.parametrize(
    "engine",
    [
        Leaky(RuntimeError(f"connect to postgresql://u:{INSIDE}@db failed")),
        Leaky(KeyError(INSIDE)),
        speaking(*[call("read", what="x"), "Done."] * 200),
    ],
    ids=["an engine that breaks", "an engine that breaks otherwise", "a tool that breaks"],
)
def test_no_canary_comes_out_anywhere(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_CANARY", ENVIRONMENT)
    monkeypatch.setenv("OPENAI_API_KEY", ENVIRONMENT)
    where = tmp_path / "ledger.db"
    said, lines = everything_said(engine, where)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert lines
    for canary in CANARIES:
        assert canary not in said, canary
        assert canary not in "".join(lines), canary
        assert canary.encode() not in kept, canary


def test_an_error_that_nobody_foresaw_is_told_by_the_requests_id_alone(tmp_path: Path) -> None:
    said, lines = everything_said(Leaky(RuntimeError(INSIDE)), tmp_path / "ledger.db")
    assert "500 " in said
    assert "Traceback" not in said
    assert "RuntimeError" not in said
    assert any("unexpected" in line for line in lines)


def test_what_an_engine_says_of_itself_reaches_only_whoever_may_use_it(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        config = keyed(key("ann", KEY, models=("other",)))
        engine = Leaky(EngineUnavailableError("http://10.0.0.7:8001 cannot be reached"))
        async with opened(config, (), pick=lambda use: engine) as gateway:
            client = Client(application(gateway), gateway)
            answer = await client.post(CHAT, {"model": "e0", "messages": USER}, bearer(KEY))
            assert b"10.0.0.7" not in answer.body
            return [answer.status]

    assert asyncio.run(scenario()) == [403]
