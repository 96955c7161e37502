"""Row 7: a caller's key is for this gateway. No engine and no tool ever sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered as Done
from ferrule.core.outcome import Outcome
from ferrule.engines.openai import openai
from ferrule.sources.fake import FakeSource
from server.client import gateway_of
from server.keys import bearer, config_with_keys, key
from threats.gateway_fixture import (
    ANN,
    CHAT,
    EVERYTHING,
    READ,
    USER,
    bodies,
    call,
    chat,
    fill_path,
    keyed_routes,
    threat_gateway,
)

SECRET = "sk-caller-0123456789abcdef"


def test_an_upstream_engine_gets_the_gateways_key_and_none_of_the_callers_headers() -> None:
    requests: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append({name.lower(): value for name, value in request.headers.items()})
        requests[-1]["(body)"] = await request.text()
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    async def scenario() -> int:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        engine = openai("small", url=f"http://127.0.0.1:{port}/v1", key="sk-upstream")
        config = config_with_keys(key("ann", SECRET, **EVERYTHING))
        try:
            async with gateway_of(engine, config=config) as client:
                headers = {**bearer(SECRET), "x-api-key": SECRET, "cookie": SECRET, "x-forwarded-for": SECRET}
                body = {"model": "e0", "messages": USER, "user": "ann"}
                return (await client.post(CHAT, body, {**headers, "openai-organization": SECRET})).status
        finally:
            await runner.cleanup()

    asyncio.run(scenario())
    assert requests
    assert requests[0]["authorization"] == "Bearer sk-upstream"
    assert SECRET not in repr(requests)


def test_a_tool_sees_the_principal_and_never_the_key() -> None:
    contexts: list[CallContext] = []

    def record(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        contexts.append(context)
        return Done("done")

    async def scenario() -> None:
        config = config_with_keys(key("ann", SECRET, tenant="acme", **EVERYTHING))
        async with gateway_of(_tool_engine(), sources=[FakeSource([READ], record)], config=config) as client:
            await client.post(CHAT, {"model": "e0", "messages": USER}, bearer(SECRET))

    asyncio.run(scenario())
    assert [(one.principal.name, one.principal.tenant) for one in contexts] == [("ann", "acme")]
    assert SECRET not in repr(contexts)


def _tool_engine() -> Any:
    from server.client import scripted_engine

    return scripted_engine(call("read", what="x"), "Done.")


def test_a_foreign_key_is_refused_on_every_route() -> None:
    async def scenario() -> set[int]:
        async with threat_gateway(*["Hello."] * 20) as client:
            statuses: set[int] = set()
            for route in keyed_routes(client):
                for body in bodies(route):
                    answer = await client.request(
                        route.method, fill_path(route.path), body, bearer("sk-of-another-gateway")
                    )
                    statuses.add(answer.status)
            assert (await chat(client, ANN)).status == 200
            return statuses

    assert asyncio.run(scenario()) == {401}
