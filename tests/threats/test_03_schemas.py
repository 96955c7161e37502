"""Row 3: a hostile schema is refused cheaply, before anything is compiled, rendered or sent to an engine."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ferrule.core.byte_cache import PROCESS_BUDGET
from ferrule.schema.admission_cache import admit_text
from ferrule.schema.checker import checker_for
from ferrule.server.auth.request_limits import RequestLimits
from schema.test_hostile import MAX_CALLS, REFUSED, calls_during
from server.client import scripted_engine
from threats.gateway_fixture import ANN, chat, threat_gateway


def json_text(make: Any) -> str | None:
    """The schema as JSON; None if it cannot be encoded."""
    try:
        return json.dumps(make())
    except (ValueError, RecursionError):
        return None


# JSON has no shared references: this schema would be endless as text.
NEVER_ENDS = {"one list held 2 to the 60 times"}
CORPUS = {name: text for name, make, _ in REFUSED if name not in NEVER_ENDS and (text := json_text(make)) is not None}


@pytest.mark.parametrize("kind", CORPUS)
@pytest.mark.parametrize("place", ["tools", "response_format"])
def test_a_hostile_schema_is_refused_before_any_engine(kind: str, place: str) -> None:
    async def scenario() -> tuple[int, int]:
        engine = scripted_engine("Hello.")
        async with threat_gateway(engine=engine) as client:
            schema = json.loads(CORPUS[kind])
            value: Any = {
                "tools": [{"type": "function", "function": {"name": "t", "parameters": schema}}],
                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
            }[place]
            answer = await chat(client, ANN, **{place: value})
            return answer.status, len(engine.requests)

    status, request_count = asyncio.run(scenario())
    assert status in (400, 413)
    assert request_count == 0


@pytest.mark.parametrize("kind", CORPUS)
def test_refusing_a_schema_takes_a_bounded_number_of_steps(kind: str) -> None:
    def admit() -> None:
        with pytest.raises(Exception, match=r".+"):
            admit_text(CORPUS[kind])

    assert calls_during(admit) < MAX_CALLS


def test_the_schema_caches_are_bounded_in_bytes_whatever_clients_send() -> None:
    before, budget = PROCESS_BUDGET.max_bytes, 1_000_000
    PROCESS_BUDGET.max_bytes = budget
    try:
        for at in range(200):
            schema = {"type": "object", "title": "x" * 20_000, "properties": {f"p{at}": {"type": "string"}}}
            admit_text(json.dumps(schema))
            assert checker_for(schema).fits({})
            assert PROCESS_BUDGET.size <= budget
    finally:
        PROCESS_BUDGET.max_bytes = before


def test_the_hashes_of_admitted_schemas_are_bounded() -> None:
    async def scenario() -> int:
        from ferrule.core.message import ChatMessage
        from ferrule.core.request import ToolCallRequest
        from ferrule.server.config.config import GatewayLimits as Settings

        limits = RequestLimits(Settings())
        for at in range(5_000):
            schema = {"title": str(at)}
            await limits.check(ToolCallRequest(messages=(ChatMessage.user("Hi."),), response_schema=schema))
        return limits.cache_size

    assert asyncio.run(scenario()) <= 4_096


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"pattern": "(?:"}, {"pattern": "[", "type": "string"}, {"type": 7}]
)
def test_an_invalid_schema_is_refused_and_the_gateway_continues(schema: dict[str, Any]) -> None:
    async def scenario() -> list[int]:
        async with threat_gateway("Hello.", "Hello.") as client:
            tool = {"type": "function", "function": {"name": "t", "parameters": {"properties": {"x": schema}}}}
            bad = await chat(client, ANN, tools=[tool])
            return [bad.status, (await chat(client, ANN)).status]

    assert asyncio.run(scenario()) == [400, 200]
