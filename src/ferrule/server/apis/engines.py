"""`/v1/engines`: the engines behind each model: their grammars, their state, and what `ferrule doctor` found.

Only operators see addresses and error messages.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ferrule.engines.profile import find_profile
from ferrule.engines.registry import address_and_model
from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import OPERATOR, AnyResponse, Request, Response, Route
from ferrule.server.router import Replica
from ferrule.server.secret_mask import mask_secrets

READY, RESTING = "ready", "resting"
"""An engine rests after a failure: others are preferred until it is tried again."""


def routes(gateway: Gateway) -> list[Route]:
    uses = {one.name: one.use for one in gateway.config.engines}

    async def list_engines(request: Request) -> AnyResponse:
        is_operator = OPERATOR in request.rights
        # An engine that nobody has asked yet is shown as it is now.
        await gateway.engine_probe.probe()
        engines = gateway.engines(request.principal)
        names = list(dict.fromkeys(replica.name for _, replica in engines))
        # Profiles are files, so they are read in a thread.
        profiles = await asyncio.to_thread(
            lambda: {name: _profile_view(uses.get(name, ""), is_operator) for name in names}
        )
        data = [{**_engine_view(model, one, is_operator), "profile": profiles[one.name]} for model, one in engines]
        return Response.json({"object": "list", "data": data})

    return [Route("GET", "/v1/engines", list_engines, "models", render_error)]


def _engine_view(model: str, replica: Replica, is_operator: bool) -> dict[str, Any]:
    traits = replica.engine.traits
    return {
        "object": "engine",
        "model": model,
        "engine": replica.name,
        "kind": traits.name,
        "targets": list(traits.targets),
        "honours": sorted(traits.honours),
        "goes_on_cheaply": traits.continues_cheaply,
        "state": READY if replica.health.is_healthy else RESTING,
        "why": mask_secrets(replica.health.last_error) if is_operator else "",
    }


def _profile_view(use: str, is_operator: bool) -> dict[str, Any] | None:
    url, model = address_and_model(use)
    profile = find_profile(url, model) if url else None
    if profile is None:
        return None
    return {**profile.as_dict(), "url": mask_secrets(profile.url) if is_operator else ""}
