"""`/v1/models`: what can be asked for, in a body that clients of both APIs read."""

from __future__ import annotations

from typing import Any

from ferrule.errors import NotFoundError
from ferrule.server.apis.chat import shape
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Whole

_LONG_AGO = "1970-01-01T00:00:00Z"


def routes(gateway: Gateway) -> list[Route]:
    def seen(asked: Asked) -> list[dict[str, Any]]:
        return [_model(name) for name in gateway.router.models if asked.principal.may_use(f"model:{name}")]

    async def listed(asked: Asked) -> Answer:
        data = seen(asked)
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        return Whole.of({"object": "list", "data": data, "has_more": False, **ends})

    async def one(asked: Asked) -> Answer:
        found = next((model for model in seen(asked) if model["id"] == asked.params["id"]), None)
        if found is None:
            raise NotFoundError("there is no such model", code="model_not_found", hint="See /v1/models.")
        return Whole.of(found)

    return [Route("GET", "/v1/models", listed, "models", shape), Route("GET", "/v1/models/{id}", one, "models", shape)]


def _model(name: str) -> dict[str, Any]:
    openai = {"id": name, "object": "model", "created": 0, "owned_by": "ferrule"}
    return {**openai, "type": "model", "display_name": name, "created_at": _LONG_AGO}
