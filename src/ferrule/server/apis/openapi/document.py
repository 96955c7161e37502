"""`/openapi.json`: the OpenAPI 3.1 document, generated from the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ferrule.server.apis.chat import render_error
from ferrule.server.apis.openapi.operations import OPERATIONS, Operation
from ferrule.server.apis.openapi.schemas import SCHEMAS, TEXT, ref
from ferrule.server.http import EVENTS, OPEN, AnyResponse, Request, Response, Route

PATH = "/openapi.json"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "api_key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def routes(others: Iterable[Route]) -> list[Route]:
    async def get_document(request: Request) -> AnyResponse:
        return Response.json(page)

    own = Route("GET", PATH, get_document, OPEN, render_error)
    page = document([*others, own])
    return [own]


def document(routes: Iterable[Route]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = OPERATIONS.get((route.method, route.path), Operation(tag="Other", summary=route.path))
        paths.setdefault(_PARAMETER.sub(r"{\1}", route.path), {})[route.method.lower()] = _operation_view(
            route, operation
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ferrule gateway",
            "version": _version(),
            "description": "Any engine behind the APIs of OpenAI, Anthropic and MCP, with valid tool calls.",
        },
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": _KEYS},
    }


def _operation_view(route: Route, operation: Operation) -> dict[str, Any]:
    view: dict[str, Any] = {
        "operationId": _id(route),
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": _parameters(route, operation),
        "responses": _responses(operation),
        "security": [] if route.scope == OPEN else [{name: []} for name in _KEYS],
        "x-ferrule-scope": route.scope,
    }
    if operation.body:
        view["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref(operation.body)}}}
    return view


def _parameters(route: Route, operation: Operation) -> list[dict[str, Any]]:
    inside = [
        {"name": name, "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}}
        for name in _PARAMETER.findall(route.path)
    ]
    query = [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()]
    headers = [{"name": name, "in": "header", "schema": schema} for name, schema in operation.headers.items()]
    return [*inside, *query, *headers]


def _responses(operation: Operation) -> dict[str, Any]:
    """Return the responses. Every route can fail with 4XX, and with 5XX if the ledger or an engine is down."""
    responses = {str(status): _answer_view(operation, name) for status, name in operation.answers.items()}
    refusal = {"description": "Refused", "content": {"application/json": {"schema": ref(operation.error)}}}
    return {**responses, "4XX": refusal, "5XX": {**refusal, "description": "Failed"}}


def _answer_view(operation: Operation, name: str | None) -> dict[str, Any]:
    view: dict[str, Any] = {"description": operation.summary}
    if name is not None:
        view["content"] = {operation.media_type: {"schema": ref(name)}}
        if operation.streams:
            view["content"][EVENTS] = {}
    elif operation.media_type != "application/json":
        # Readers of the description check each event against a schema: these are no texts.
        view["content"] = {operation.media_type: {} if operation.media_type == EVENTS else {"schema": TEXT}}
    return view


def _id(route: Route) -> str:
    """Return the operation id: the words of the method and the path, joined."""
    path = _PARAMETER.sub(r"\1", route.path)
    return "_".join(re.findall(r"\w+", f"{route.method.lower()} {path}"))


def _version() -> str:
    try:
        return version("ferrule")
    except PackageNotFoundError:
        # The package runs from a checkout and is not installed.
        return "0"
