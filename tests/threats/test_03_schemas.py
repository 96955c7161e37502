"""Row 3: a schema that is built to hurt is refused before anything is compiled, rendered or sent on, and cheaply."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ferrule.schema.admission import Limits
from ferrule.schema.admission_cache import admitted_text
from ferrule.server.auth.request_limits import Admission
from schema.test_hostile import MOST_CALLS, REFUSED, calls_during
from server.client import speaking
from threats.house import ANN, chat, house


def written(make: Any) -> str | None:
    """The schema as a client would send it; None where there is no such JSON."""
    try:
        return json.dumps(make())
    except (ValueError, RecursionError):
        return None


# In a text every list is written out, so that none is held twice.
NEVER_ENDS = {"one list held 2 to the 60 times"}
CORPUS = {name: text for name, make, _ in REFUSED if name not in NEVER_ENDS and (text := written(make)) is not None}


@pytest.mark.parametrize("kind", CORPUS)
@pytest.mark.parametrize("place", ["tools", "response_format"])
def test_a_hostile_schema_is_refused_and_no_engine_hears_of_it(kind: str, place: str) -> None:
    async def scenario() -> tuple[int, int]:
        engine = speaking("Hello.")
        async with house(engine=engine) as client:
            schema = json.loads(CORPUS[kind])
            brought: Any = {
                "tools": [{"type": "function", "function": {"name": "t", "parameters": schema}}],
                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
            }[place]
            answer = await chat(client, ANN, **{place: brought})
            return answer.status, len(engine.requests)

    status, asked = asyncio.run(scenario())
    assert status in (400, 413)
    assert asked == 0


@pytest.mark.parametrize("kind", CORPUS)
def test_refusing_takes_no_more_steps_than_the_bytes_that_are_let_in_allow(kind: str) -> None:
    def refused() -> None:
        with pytest.raises(Exception, match=r".+"):
            admitted_text(CORPUS[kind])

    assert calls_during(refused) < MOST_CALLS


def test_what_is_remembered_of_schemas_is_bounded() -> None:
    most = admitted_text.cache_info().maxsize
    assert most is not None
    assert most * Limits().max_bytes < 200_000_000

    async def scenario() -> int:
        from ferrule.core.message import ChatMessage
        from ferrule.core.request import ToolCallRequest
        from ferrule.server.config.config import Limits as Settings

        admission = Admission(Settings())
        for at in range(5_000):
            schema = {"title": str(at)}
            await admission.check(ToolCallRequest(messages=(ChatMessage.user("Hi."),), response_schema=schema))
        return admission.remembered

    assert asyncio.run(scenario()) <= 4_096


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"pattern": "(?:"}, {"pattern": "[", "type": "string"}, {"type": 7}]
)
def test_a_schema_that_is_none_is_refused_and_the_gateway_lives_on(schema: dict[str, Any]) -> None:
    async def scenario() -> list[int]:
        async with house("Hello.", "Hello.") as client:
            tool = {"type": "function", "function": {"name": "t", "parameters": {"properties": {"x": schema}}}}
            bad = await chat(client, ANN, tools=[tool])
            return [bad.status, (await chat(client, ANN)).status]

    assert asyncio.run(scenario()) == [400, 200]
