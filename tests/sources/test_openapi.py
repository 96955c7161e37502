"""The operations of an OpenAPI document are tools: what they are called, what they accept, and what is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import DefinitionError
from ferrule.schema.admission_cache import admit_tool
from ferrule.sources import ApiKey, OpenApi, openapi
from ferrule.sources.openapi.http_request import write_request
from ferrule.sources.openapi.schema_conversion import MAX_DEFINITIONS

SERVER = "http://127.0.0.1:1/v1"
KEY = ApiKey("Bearer s3cret-token", header="authorization")


def document(paths: dict[str, Any], version: str = "3.1.0", **others: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "t", "version": "1"}, "paths": paths, **others}


def parameter(name: str, place: str = "query", **others: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}, "required": place == "path", **others}


def operation(*parameters: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"operationId": "op", "parameters": list(parameters), **others}


def json_body(schema: Any, **others: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}, **others}


ORDERS = document(
    {
        "/orders/{id}": {
            "parameters": [parameter("id", "path")],
            "get": {"operationId": "orders/get", "summary": "Get an order"},
            "delete": {"operationId": "orders/delete"},
        },
        "/orders": {
            "post": {
                "operationId": "createOrder",
                "requestBody": json_body({"$ref": "#/components/schemas/Order"}, required=True),
            },
        },
    },
    components={
        "schemas": {
            "Order": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Order"}},
                },
                "required": ["id", "parts"],
            }
        }
    },
)


def source_of(paths: dict[str, Any] | None = None, **options: Any) -> OpenApi:
    return openapi(ORDERS if paths is None else document(paths), server=SERVER, **options)


def schema_of(source: OpenApi, name: str = "op") -> Any:
    return source.operations[name].tool.parameters


def test_each_operation_is_a_tool_and_only_reads_need_no_approval() -> None:
    tools = {name: one.tool for name, one in source_of(prefix="shop").operations.items()}
    assert {name: tool.side_effects for name, tool in tools.items()} == {
        "shop_orders_get": False,
        "shop_orders_delete": True,
        "shop_createOrder": True,
    }
    assert tools["shop_orders_get"].description == "Get an order"
    assert tools["shop_orders_get"].required == ("id",)


def test_a_recursive_body_keeps_its_definitions_and_loses_what_only_answers_have() -> None:
    schema = schema_of(source_of(), "createOrder")
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Order"}
    assert schema["$defs"]["Order"]["required"] == ["parts"]
    assert schema["$defs"]["Order"]["properties"] == {"parts": {"type": "array", "items": {"$ref": "#/$defs/Order"}}}
    admit_tool(source_of().operations["createOrder"].tool)


@pytest.mark.parametrize(
    "old, new",
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 3}),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": False}, {"type": "integer", "minimum": 3}),
        (
            {"allOf": [{"type": "string"}], "nullable": True},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"type": "string", "example": "x", "xml": {}, "x-own": 1}, {"type": "string"}),
    ],
)
def test_the_older_dialect_is_read_with_its_meaning(old: dict[str, Any], new: dict[str, Any]) -> None:
    whole = document({"/a": {"get": operation({**parameter("p"), "schema": old})}}, "3.0.3")
    assert schema_of(openapi(whole, server=SERVER))["properties"]["p"] == new


def test_a_schema_that_leads_to_the_whole_document_is_left_open_below_a_limit() -> None:
    chain = {
        f"S{n}": {"type": "object", "properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}}}
        for n in range(200)
    }
    whole = document(
        {"/a": {"post": operation(requestBody=json_body({"$ref": "#/components/schemas/S0"}))}},
        components={"schemas": {**chain, "S200": {}}},
    )
    source = openapi(whole, server=SERVER)
    assert source.operations["op"].is_open
    assert len(schema_of(source)["$defs"]) == MAX_DEFINITIONS
    admit_tool(source.operations["op"].tool)


def test_a_body_with_more_text_than_a_schema_may_have_loses_text_before_it_loses_rules() -> None:
    def source(words: int, fields: int) -> OpenApi:
        properties = {
            f"field_{n}": {"type": "integer", "minimum": n, "description": "word " * words} for n in range(fields)
        }
        parts = {f"P{n}": {"type": "object", "properties": properties} for n in range(20)}
        body = {"type": "object", "properties": {name: {"$ref": f"#/components/schemas/{name}"} for name in parts}}
        post = operation(requestBody=json_body(body))
        return openapi(document({"/a": {"post": post}}, components={"schemas": parts}), server=SERVER)

    long_texts = source(100, 20)
    assert schema_of(long_texts)["$defs"]["P19"]["properties"]["field_7"] == {"type": "integer", "minimum": 7}
    assert not long_texts.operations["op"].is_open
    long_rules = source(1, 100)
    assert long_rules.operations["op"].is_open
    assert 0 < len(schema_of(long_rules)["$defs"]) < 20
    for one in (long_texts, long_rules):
        admit_tool(one.operations["op"].tool)


@pytest.mark.parametrize(
    "paths, reason",
    [
        ({"/a/{x}": {"get": operation()}}, "which is no parameter"),
        ({"/a": {"post": operation(requestBody={"content": {"multipart/form-data": {}}})}}, "only JSON"),
        ({"/a": {"get": operation({"$ref": "https://evil.example/p.json"})}}, "leads out of the document"),
        (
            {"/a": {"get": operation({**parameter("p"), "schema": {"$ref": "other.json#/x"}})}},
            "leads out of the document",
        ),
        ({"/a": {"get": operation({"$ref": "#/components/parameters/none"})}}, "names nothing"),
        ({"/a": {"get": operation({"name": "p", "in": "somewhere"})}}, "is in 'somewhere'"),
        ({"@evil.example/a": {"get": operation()}}, "does not begin with"),
        ({".evil.example/a": {"get": operation()}}, "does not begin with"),
    ],
)
def test_what_cannot_be_called_is_not_offered_and_says_why(paths: dict[str, Any], reason: str) -> None:
    source = source_of({**paths, "/fine": {"get": {"operationId": "fine"}}})
    assert list(source.operations) == ["fine"]
    (notice,) = source.notices
    assert reason in notice


@pytest.mark.parametrize("text", ["{", "[]", "swagger: '2.0'", '{"openapi": "3.1.0"}', "a: [", "{" * 5000])
def test_a_file_that_is_no_document_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "api.yaml").write_text(text)
    with pytest.raises(DefinitionError):
        openapi(tmp_path / "api.yaml")


def test_json_and_yaml_are_read_alike(tmp_path: Path) -> None:
    import yaml

    (tmp_path / "api.json").write_text(json.dumps(ORDERS))
    (tmp_path / "api.yaml").write_text(yaml.safe_dump(ORDERS, sort_keys=False))
    first, second = (openapi(tmp_path / name, server=SERVER) for name in ("api.json", "api.yaml"))
    assert [one.tool for one in first.operations.values()] == [one.tool for one in second.operations.values()]


@pytest.mark.parametrize("server", ["", "ftp://a", "/v1", "https://u:p@a/", "https://a/?x=1"])
def test_a_server_must_be_an_address_without_credentials(server: str) -> None:
    with pytest.raises(DefinitionError, match="not the address of a server"):
        openapi(ORDERS, server=server)


def test_the_first_server_of_the_document_is_used_with_the_defaults_of_its_variables() -> None:
    servers = [{"url": "https://{region}.example.com/v1", "variables": {"region": {"default": "eu"}}}]
    assert openapi({**ORDERS, "servers": servers}).server == "https://eu.example.com/v1"


def url_of(source: OpenApi, arguments: dict[str, Any], name: str = "op") -> str:
    return write_request(source.server, source.operations[name], arguments).url.removeprefix(SERVER)


@pytest.mark.parametrize(
    "others, value, query",
    [
        ({}, "a b&c=d", "p=a%20b%26c%3Dd"),
        ({}, ["a", "b"], "p=a&p=b"),
        ({"explode": False}, ["a", "b"], "p=a%2Cb"),
        ({"style": "pipeDelimited", "explode": False}, ["a", "b"], "p=a%7Cb"),
        ({}, {"x": 1, "y": True}, "x=1&y=true"),
        ({"style": "deepObject"}, {"x": {"y": 1}}, "p%5Bx%5D%5By%5D=1"),
        ({"content": {"application/json": {"schema": {}}}}, {"x": 1}, "p=%7B%22x%22%3A%201%7D"),
    ],
)
def test_a_query_is_written_in_the_style_of_its_parameter(others: dict[str, Any], value: Any, query: str) -> None:
    assert url_of(source_of({"/a": {"get": operation(parameter("p", **others))}}), {"p": value}) == f"/a?{query}"


def test_parameters_of_one_name_are_told_apart_by_their_place() -> None:
    source = source_of(
        {"/a/{id}": {"post": operation(parameter("id", "path"), parameter("id"), requestBody=json_body({}))}}
    )
    assert list(schema_of(source)["properties"]) == ["path_id", "query_id", "body"]
    assert url_of(source, {"path_id": "1", "query_id": "2"}) == "/a/1?id=2"


@given(st.text(max_size=20))
def test_no_value_of_a_path_changes_which_path_is_called(value: str) -> None:
    source = source_of({"/a/{x}/b": {"get": operation(parameter("x", "path"))}})
    try:
        path = url_of(source, {"x": value})
    except DefinitionError:
        assert value in ("", ".", "..")
        return
    head, middle, tail = path.removeprefix("/").split("/")
    assert (head, tail) == ("a", "b")
    assert unquote(middle) == value.encode("utf-8", "replace").decode()
    assert not set("?#\\") & set(middle)


def test_the_key_is_no_argument_and_no_other_credential_either() -> None:
    paths = {
        "/a": {"get": operation(*(parameter(name, "header") for name in ("Authorization", "Host", "X-Key", "X-Other")))}
    }
    assert list(schema_of(source_of(paths, key=ApiKey("k", header="x-key")))["properties"]) == ["X-Other"]
    assert (
        list(
            schema_of(source_of({"/a": {"get": operation(parameter("api_key"))}}, key=ApiKey("k", query="api_key")))[
                "properties"
            ]
        )
        == []
    )


@pytest.mark.parametrize("value", ["a\r\nx: y", "ä", "\x00"])
def test_a_header_cannot_be_split(value: str) -> None:
    source = source_of({"/a": {"get": operation(parameter("h", "header"))}})
    with pytest.raises(DefinitionError, match="a header cannot hold"):
        url_of(source, {"h": value})


@dataclass(slots=True)
class Api:
    """A real API on loopback, and the requests that it got."""

    url: str
    requests: list[tuple[str, str, dict[str, str], str]] = field(
        default_factory=list[tuple[str, str, dict[str, str], str]]
    )


@asynccontextmanager
async def api(answer: Callable[[web.Request], Any]) -> AsyncGenerator[Api]:
    async def handle(request: web.Request) -> web.StreamResponse:
        text = await request.text()
        headers = {name.lower(): value for name, value in request.headers.items()}
        running.requests.append((request.method, request.raw_path, headers, text))
        made = answer(request)
        return await made if asyncio.iscoroutine(made) else made

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    # A handler ends with its client: the server would wait a minute for one that does not answer.
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    running = Api(f"http://127.0.0.1:{port}")
    try:
        yield running
    finally:
        await runner.cleanup()


def call(
    answer: Callable[[web.Request], Any],
    name: str = "orders_get",
    arguments: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Outcome, Api]:
    async def run() -> tuple[Outcome, Api]:
        async with api(answer) as running, openapi(ORDERS, server=f"{running.url}/v1", **options) as source:
            given = {"id": "7"} if arguments is None else arguments
            return await source.call(name, given, CallContext(call_id="c-1")), running

    return asyncio.run(run())


def test_a_read_sends_the_key_and_returns_the_json() -> None:
    outcome, running = call(lambda request: web.json_response({"id": 7}), key=KEY)
    assert outcome == Answered({"id": 7})
    ((method, path, headers, _),) = running.requests
    assert (method, path, headers["authorization"]) == ("GET", "/v1/orders/7", "Bearer s3cret-token")
    assert "idempotency-key" not in headers


def test_a_write_is_sent_once_with_its_body_and_the_id_of_its_call() -> None:
    outcome, running = call(lambda request: web.json_response({}, status=201), "createOrder", {"body": {"parts": []}})
    assert outcome == Answered({})
    ((method, path, headers, text),) = running.requests
    assert (method, path, json.loads(text)) == ("POST", "/v1/orders", {"parts": []})
    assert (headers["content-type"], headers["idempotency-key"]) == ("application/json", "c-1")


@pytest.mark.parametrize(
    "media_type, schema, body, sent, sent_type",
    [
        ("text/plain", {}, "a\nb", "a\nb", "text/plain"),
        ("*/*", {"type": "object"}, {"x": 1}, '{"x": 1}', "application/json"),
        ("application/merge-patch+json", {}, {"x": None}, '{"x": null}', "application/merge-patch+json"),
        ("application/x-www-form-urlencoded", {}, {"a": {"b": [1, 2]}}, "a%5Bb%5D%5B0%5D=1&a%5Bb%5D%5B1%5D=2", None),
    ],
)
def test_a_body_is_written_in_its_media_type(
    media_type: str, schema: Any, body: Any, sent: str, sent_type: str | None
) -> None:
    source = source_of({"/a": {"post": operation(requestBody={"content": {media_type: {"schema": schema}}})}})
    request = write_request(source.server, source.operations["op"], {"body": body})
    assert request.body == sent.encode()
    assert request.headers["content-type"] == (sent_type or media_type)


def test_an_error_of_the_api_is_an_error_with_its_body() -> None:
    outcome, _ = call(lambda request: web.json_response({"message": "no such order"}, status=404))
    assert outcome == Answered({"status": 404, "body": {"message": "no such order"}}, is_error=True, code="http_error")


def test_a_key_that_the_server_repeats_is_hidden() -> None:
    outcome, _ = call(lambda request: web.json_response(dict(request.headers)), key=KEY)
    assert isinstance(outcome, Answered)
    assert "s3cret-token" not in json.dumps(outcome.content)


@pytest.mark.parametrize(
    "key",
    [ApiKey("pass word/with+signs", query="key"), ApiKey('a"quote and a\\backslash', header="x-key")],
)
def test_a_key_is_hidden_however_the_server_writes_it(key: ApiKey) -> None:
    def answer(request: web.Request) -> web.Response:
        return web.json_response({"url": request.raw_path, **request.query, **request.headers})

    outcome, _ = call(answer, key=key)
    assert isinstance(outcome, Answered)
    text = json.dumps(outcome.content)
    assert not any(part in text for part in ("word", "signs", "quote and", "backslash")), text


def test_an_answer_that_is_too_large_is_an_error_and_not_a_part() -> None:
    outcome, _ = call(lambda request: web.Response(text="x" * 5000), max_bytes=1000)
    assert isinstance(outcome, Answered)
    assert (outcome.is_error, outcome.code) == (True, "too_large")


def test_a_read_follows_a_redirect_on_the_same_server_and_none_to_another() -> None:
    def moved(request: web.Request) -> web.Response:
        if request.path.endswith("/7"):
            return web.Response(status=302, headers={"location": "/v1/orders/8"})
        return web.json_response({"id": 8})

    assert call(moved)[0] == Answered({"id": 8})
    other, running = call(
        lambda request: web.Response(status=302, headers={"location": "http://127.0.0.2/steal"}), key=KEY
    )
    assert isinstance(other, Answered)
    assert (other.is_error, other.code, len(running.requests)) == (True, "redirected", 1)


def test_a_write_follows_no_redirect() -> None:
    outcome, running = call(
        lambda request: web.Response(status=307, headers={"location": "/v1/x"}), "createOrder", {"body": {"parts": []}}
    )
    assert isinstance(outcome, Answered)
    assert (outcome.code, len(running.requests)) == ("redirected", 1)


def test_a_redirect_without_end_ends() -> None:
    outcome, running = call(lambda request: web.Response(status=302, headers={"location": request.path}))
    assert isinstance(outcome, Answered)
    assert outcome.code == "redirected"
    assert len(running.requests) <= 10


@pytest.mark.parametrize("name, kind", [("orders_get", Answered), ("orders_delete", Unknown)])
def test_a_call_whose_connection_breaks_is_sent_once_and_a_write_is_then_unknown(name: str, kind: type) -> None:
    """DELETE and PUT too, which HTTP clients like to repeat by themselves."""

    def broken(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    outcome, running = call(broken, name)
    assert isinstance(outcome, kind)
    assert len(running.requests) == 1


def test_a_server_that_is_not_there_got_nothing() -> None:
    async def run() -> Outcome:
        async with openapi(ORDERS, server=SERVER) as source:
            return await source.call("orders_delete", {"id": "7"}, CallContext())

    assert isinstance(asyncio.run(run()), NotDelivered)


def test_a_server_that_does_not_answer_is_left_after_the_time_limit() -> None:
    async def never(request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    outcome, _ = call(never, "orders_delete", timeout_seconds=0.2)
    assert isinstance(outcome, Unknown)
    assert outcome.code == "timeout"


def test_an_unsafe_path_value_is_an_error_for_the_model_and_nothing_is_sent() -> None:
    outcome, running = call(lambda request: web.json_response({}), "orders_delete", {"id": ".."})
    assert isinstance(outcome, Answered)
    assert (outcome.is_error, outcome.code, running.requests) == (True, "bad_request", [])
