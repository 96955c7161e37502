"""`/openapi.json`: what is served, described by OpenAPI 3.1, made from the very routes that serve it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ferrule.server.apis.chat import shape
from ferrule.server.apis.openapi.operations import OPERATIONS, Operation
from ferrule.server.apis.openapi.schemas import SCHEMAS, TEXT, ref
from ferrule.server.http import EVENTS, OPEN, Answer, Asked, Route, Whole

PATH = "/openapi.json"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "api_key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def routes(others: Iterable[Route]) -> list[Route]:
    async def described(asked: Asked) -> Answer:
        return Whole.of(page)

    own = Route("GET", PATH, described, OPEN, shape)
    page = document([*others, own])
    return [own]


def document(routes: Iterable[Route]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = OPERATIONS.get((route.method, route.path), Operation(tag="Other", summary=route.path))
        paths.setdefault(_PARAMETER.sub(r"{\1}", route.path), {})[route.method.lower()] = _described(route, operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ferrule gateway",
            "version": _version(),
            "description": "Any engine behind the APIs of OpenAI, Anthropic and MCP, with calls that are valid.",
        },
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": _KEYS},
    }


def _described(route: Route, operation: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": _id(route),
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": _parameters(route, operation),
        "responses": _responses(operation),
        "security": [] if route.scope == OPEN else [{name: []} for name in _KEYS],
        "x-ferrule-scope": route.scope,
    }
    if operation.body:
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref(operation.body)}}}
    return told


def _parameters(route: Route, operation: Operation) -> list[dict[str, Any]]:
    inside = [
        {"name": name, "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}}
        for name in _PARAMETER.findall(route.path)
    ]
    query = [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()]
    headers = [{"name": name, "in": "header", "schema": schema} for name, schema in operation.headers.items()]
    return [*inside, *query, *headers]


def _responses(operation: Operation) -> dict[str, Any]:
    """Everything can be refused, and everything can find the ledger or an engine gone."""
    told = {str(status): _answer(operation, name) for status, name in operation.answers.items()}
    refusal = {"description": "Refused", "content": {"application/json": {"schema": ref(operation.error)}}}
    return {**told, "4XX": refusal, "5XX": {**refusal, "description": "Failed"}}


def _answer(operation: Operation, name: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {"description": operation.summary}
    if name is not None:
        told["content"] = {operation.media_type: {"schema": ref(name)}}
        if operation.streams:
            told["content"][EVENTS] = {}
    elif operation.media_type != "application/json":
        told["content"] = {operation.media_type: {"schema": TEXT}}
    return told


def _id(route: Route) -> str:
    """Words of the method and the path, joined."""
    path = _PARAMETER.sub(r"\1", route.path)
    return "_".join(re.findall(r"\w+", f"{route.method.lower()} {path}"))


def _version() -> str:
    try:
        return version("ferrule")
    except PackageNotFoundError:
        # From a checkout that was not installed.
        return "0"
