import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, FerruleError, SchemaError, TooLargeError
from ferrule.server.auth.request_limits import RequestLimits
from ferrule.server.config.config import GatewayLimits
from server.client import gateway_of, scripted_engine
from server.keys import config_with_keys

REQUEST = ToolCallRequest(messages=(ChatMessage.user("Hi."),))
HOSTILE: dict[str, dict[str, Any]] = {
    "fetched": {"$ref": "http://127.0.0.1:1/x"},
    "a file": {"$ref": "file:///etc/passwd"},
    "itself": {"$ref": "#"},
    "doubling": {
        "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(26)} | {"a26": {}},
        "$ref": "#/$defs/a0",
    },
    "a pattern": {"properties": {"x": {"type": "string", "pattern": "(a{1000}){1000}"}}},
    "a bad pattern": {"properties": {"x": {"type": "string", "pattern": "(?:"}}},
    "an enum": {"enum": [str(n) for n in range(5_000)]},
    "a bad type": {"type": "strnig"},
}


def check(request: ToolCallRequest, limits: GatewayLimits | None = None) -> None:
    asyncio.run(RequestLimits(limits or GatewayLimits()).check(request))


def with_tool(schema: dict[str, Any], name: str = "t") -> ToolCallRequest:
    return replace(REQUEST, tools=(ToolDefinition(name, "", schema),))


@pytest.mark.parametrize(
    "request_, limits, error",
    [
        (replace(REQUEST, messages=REQUEST.messages * 3), GatewayLimits(messages=2), TooLargeError),
        (
            replace(REQUEST, tools=tuple(ToolDefinition(f"t{n}") for n in range(3))),
            GatewayLimits(tools=2),
            TooLargeError,
        ),
        (with_tool({"type": "object", "description": "x" * 200}), GatewayLimits(schema_bytes=100), TooLargeError),
        (replace(REQUEST, max_tokens=11), GatewayLimits(most_tokens=10), DefinitionError),
    ],
)
def test_a_request_that_exceeds_a_limit_is_refused(
    request_: ToolCallRequest, limits: GatewayLimits, error: type[FerruleError]
) -> None:
    check(request_)
    with pytest.raises(error):
        check(request_, limits)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_refused_schema_is_reported_with_the_name_of_its_tool(kind: str) -> None:
    with pytest.raises(SchemaError, match="the schema of tool 't'"):
        check(with_tool(HOSTILE[kind]))
    with pytest.raises(SchemaError, match="the response schema"):
        check(replace(REQUEST, response_schema=HOSTILE[kind]))


def test_a_schema_is_admitted_once() -> None:
    async def scenario() -> list[int]:
        limits = RequestLimits(GatewayLimits())
        counts: list[int] = []
        for request in (with_tool({"title": "one"}), with_tool({"title": "one"}, "other"), with_tool({"title": "two"})):
            await limits.check(request)
            counts.append(limits.admissions)
        return counts

    assert asyncio.run(scenario()) == [1, 1, 2]


def test_a_schema_that_was_refused_is_refused_again() -> None:
    async def scenario() -> None:
        limits = RequestLimits(GatewayLimits())
        for _ in range(2):
            with pytest.raises(SchemaError):
                await limits.check(with_tool(HOSTILE["itself"]))

    asyncio.run(scenario())


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"tools": [{"type": "function", "function": {"name": "t", "parameters": None}}]}),
    "chat, functions": ("/v1/chat/completions", {"functions": [{"name": "t", "parameters": None}]}),
    "chat, answer": (
        "/v1/chat/completions",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": None}}},
    ),
    "chat, guided": ("/v1/chat/completions", {"guided_json_schema": None}),
    "messages": ("/v1/messages", {"max_tokens": 10, "tools": [{"name": "t", "input_schema": None}]}),
    "count": ("/v1/messages/count_tokens", {"tools": [{"name": "t", "input_schema": None}]}),
}


def _with_schema(value: Any, schema: Any) -> Any:
    if value is None:
        return schema
    if isinstance(value, dict):
        return {name: _with_schema(one, schema) for name, one in value.items()}
    return [_with_schema(one, schema) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_api_lets_a_hostile_schema_reach_an_engine(api: str, kind: str) -> None:
    path, body = BODIES[api]

    async def scenario() -> tuple[int, Any, int]:
        engine = scripted_engine("Hello.")
        async with gateway_of(engine) as client:
            filled = _with_schema(body, HOSTILE[kind])
            answer = await client.post(path, {"model": "m", "messages": [{"role": "user", "content": "Hi."}], **filled})
            return answer.status, answer.json(), len(engine.requests)

    status, answer_body, request_count = asyncio.run(scenario())
    assert status == 400
    assert "admitted" in str(answer_body)
    assert request_count == 0


def test_a_hostile_schema_does_not_block_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Admission and the other request wait for each other: on a single thread neither would end."""
    import threading

    from ferrule.server.auth import request_limits as limits_request

    started, may_end = threading.Event(), threading.Event()

    def slow(text: str) -> dict[str, Any]:
        started.set()
        assert may_end.wait(30)
        return {}

    monkeypatch.setattr(limits_request, "admit_text", slow)

    async def scenario() -> bool:
        async with gateway_of(scripted_engine("Hello.", "Hello."), config=config_with_keys()) as client:
            body = {
                "model": "m",
                "messages": [{"role": "user", "content": "Hi."}],
                "guided_json_schema": {"title": "s"},
            }
            hostile = asyncio.ensure_future(client.post("/v1/chat/completions", body))
            while not started.is_set():
                await asyncio.sleep(0.001)
            response = await client.get("/v1/models")
            waits = not hostile.done()
            may_end.set()
            await hostile
            return waits and response.status == 200

    assert asyncio.run(scenario())
