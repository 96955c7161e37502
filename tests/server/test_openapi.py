"""The OpenAPI document describes every route, and nothing else."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for
from ferrule.server.apis.openapi.operations import OPERATIONS
from ferrule.server.apis.openapi.schemas import SCHEMAS
from ferrule.server.app import routes_of
from ferrule.server.http import OPEN
from server.keys import bearer
from server.tool_world import World, run_story, world_of


def _document() -> tuple[dict[str, Any], set[tuple[str, str, str]]]:
    """What is described, and what is served."""

    async def told() -> tuple[dict[str, Any], set[tuple[str, str, str]]]:
        async with world_of() as world:
            routes = routes_of(world.client.gateway)
            served = {(one.method, one.path.replace(":path}", "}"), one.scope) for one in routes}
            return (await world.client.get("/openapi.json")).json(), served

    return asyncio.run(told())


def test_every_route_is_described_and_nothing_is_described_that_is_not_served() -> None:
    document, served = _document()
    described = {
        (method.upper(), path, one["x-ferrule-scope"])
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    }
    assert described == served
    assert {(method, path) for method, path, _ in served} == {
        (method, path.replace(":path}", "}")) for method, path in OPERATIONS
    }


def test_only_what_is_open_asks_for_no_key() -> None:
    document, served = _document()
    for method, path, scope in served:
        assert (document["paths"][path][method.lower()]["security"] == []) is (scope == OPEN)


def test_every_reference_leads_somewhere_and_every_schema_is_one() -> None:
    document, _ = _document()
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)):
        assert name in SCHEMAS
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))


def fits(name: str, value: object) -> None:
    whole = {"$ref": f"#/$defs/{name}", "$defs": SCHEMAS}
    text = json.dumps(whole).replace("#/components/schemas/", "#/$defs/")
    assert checker_for(admit(json.loads(text))).faults(value) == ()


@pytest.mark.parametrize("name", [name for name, schema in SCHEMAS.items() if "example" in schema])
def test_examples_fit_what_they_are_examples_of(name: str) -> None:
    fits(name, SCHEMAS[name]["example"])


def test_what_the_tools_apis_answer_is_what_is_described() -> None:
    async def story(world: World) -> None:
        async def got(path: str) -> Any:
            answer = await world.client.get(path, bearer("boss"))
            assert answer.status == 200
            return answer.json()

        waiting = (await world.call("pay", {"amount": 1}, who="boss")).json()
        fits("ToolWaiting", waiting)
        fits("ToolResult", (await world.call("look", {"place": "x"})).json())
        fits("Error", (await world.call("look", {})).json())
        fits("Tools", await got("/v1/tools"))
        fits("Approvals", await got("/v1/approvals"))
        fits("ApprovalDetail", await got(f"/v1/approvals/{waiting['approval']['id']}"))
        place = f"/v1/approvals/{waiting['approval']['id']}/check"
        fits("ApprovalCheck", (await world.client.post(place, {"arguments": {}}, bearer("boss"))).json())
        fits("ToolDetail", await got("/v1/tools/pay"))
        fits("Sources", await got("/v1/sources"))
        fits("Engines", await got("/v1/engines"))
        fits("Conversations", await got("/v1/conversations"))
        fits("Conversation", await got(f"/v1/conversations/{waiting['approval']['conversation']}"))
        fits("RpcReply", (await world.rpc("tools/list")).json())
        fits("RpcError", (await world.rpc("nothing")).json())
        fits("OpenApi", await got("/openapi.json"))
        fits("Me", await got("/v1/me"))
        fits("Alive", await got("/healthz"))
        fits("Ready", await got("/readyz"))

    run_story(story)


def test_a_path_with_a_line_break_is_not_found_in_json() -> None:
    async def scenario() -> None:
        async with world_of() as world:
            answer = await world.client.get("/console/a\n b", bearer("ann"))
            assert (answer.status, answer.headers["content-type"]) == (404, "application/json")
            assert answer.json()["error"]["code"] == "not_found"

    asyncio.run(scenario())
