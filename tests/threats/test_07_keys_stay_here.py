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
from server.keys import bearer, key, keyed
from threats.house import ANN, CHAT, EVERYTHING, READ, USER, bodies, call, chat, closed_routes, filled, house

SECRET = "sk-caller-0123456789abcdef"


def test_an_engine_behind_us_gets_the_gateways_key_and_nothing_of_the_callers_headers() -> None:
    seen: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append({name.lower(): value for name, value in request.headers.items()})
        seen[-1]["(body)"] = await request.text()
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
        config = keyed(key("ann", SECRET, **EVERYTHING))
        try:
            async with gateway_of(engine, config=config) as client:
                headers = {**bearer(SECRET), "x-api-key": SECRET, "cookie": SECRET, "x-forwarded-for": SECRET}
                asked = {"model": "e0", "messages": USER, "user": "ann"}
                return (await client.post(CHAT, asked, {**headers, "openai-organization": SECRET})).status
        finally:
            await runner.cleanup()

    asyncio.run(scenario())
    assert seen
    assert seen[0]["authorization"] == "Bearer sk-upstream"
    assert SECRET not in repr(seen)


def test_a_tool_is_told_who_calls_and_never_by_which_key() -> None:
    contexts: list[CallContext] = []

    def noted(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        contexts.append(context)
        return Done("done")

    async def scenario() -> None:
        config = keyed(key("ann", SECRET, tenant="acme", **EVERYTHING))
        async with gateway_of(_scripted(), sources=[FakeSource([READ], noted)], config=config) as client:
            await client.post(CHAT, {"model": "e0", "messages": USER}, bearer(SECRET))

    asyncio.run(scenario())
    assert [(one.principal.name, one.principal.tenant) for one in contexts] == [("ann", "acme")]
    assert SECRET not in repr(contexts)


def _scripted() -> Any:
    from server.client import speaking

    return speaking(call("read", what="x"), "Done.")


def test_a_key_of_elsewhere_opens_nothing() -> None:
    async def scenario() -> set[int]:
        async with house(*["Hello."] * 20) as client:
            found: set[int] = set()
            for route in closed_routes(client):
                for body in bodies(route):
                    answer = await client.ask(route.method, filled(route.path), body, bearer("sk-of-another-gateway"))
                    found.add(answer.status)
            assert (await chat(client, ANN)).status == 200
            return found

    assert asyncio.run(scenario()) == {401}
