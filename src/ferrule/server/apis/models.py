"""`/v1/models`: the available models, in a body that clients of OpenAI's and Anthropic's APIs can read."""

from __future__ import annotations

from typing import Any

from ferrule.dialects.extension import KEY
from ferrule.errors import NotFoundError
from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response, Route
from ferrule.server.router import RoutedEngine

_CONVERSATION_APIS = ("chat/completions", "messages", "responses")
"""Every model has these; others depend on its engine."""
_UNKNOWN_DATE = "1970-01-01T00:00:00Z"


def routes(gateway: Gateway) -> list[Route]:
    def visible_models(request: Request) -> list[dict[str, Any]]:
        return [
            _model(name, model)
            for name, model in gateway.router.models.items()
            if request.principal.may_use(f"model:{name}")
        ]

    async def list_models(request: Request) -> AnyResponse:
        data = visible_models(request)
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        return Response.json({"object": "list", "data": data, "has_more": False, **ends})

    async def get_model(request: Request) -> AnyResponse:
        model = next((model for model in visible_models(request) if model["id"] == request.params["id"]), None)
        if model is None:
            raise NotFoundError("there is no such model", code="model_not_found", hint="See /v1/models.")
        return Response.json(model)

    return [
        Route("GET", "/v1/models", list_models, "models", render_error),
        Route("GET", "/v1/models/{id}", get_model, "models", render_error),
    ]


def _model(name: str, model: RoutedEngine) -> dict[str, Any]:
    apis = [*_CONVERSATION_APIS, *sorted(model.forwarded_apis)]
    openai = {"id": name, "object": "model", "created": 0, "owned_by": "ferrule"}
    return {**openai, "type": "model", "display_name": name, "created_at": _UNKNOWN_DATE, KEY: {"apis": apis}}
