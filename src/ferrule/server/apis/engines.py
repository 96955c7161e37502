"""`/v1/engines`: what answers behind each model: how it can be held, how it is, and what `ferrule doctor` found there.

Addresses and what an engine said when it failed are for who runs the gateway.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ferrule.engines.profile_file import find_profile
from ferrule.engines.registry import place_of
from ferrule.server.addresses import without_secrets
from ferrule.server.apis.chat import shape
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Whole
from ferrule.server.router import Replica

READY, RESTING = "ready", "resting"
"""The second after a failure: others are asked first, until it is tried again."""


def routes(gateway: Gateway) -> list[Route]:
    uses = {one.name: one.use for one in gateway.config.engines}

    async def listed(asked: Asked) -> Answer:
        is_admin = "admin" in asked.rights
        found = gateway.engines(asked.principal)
        names = list(dict.fromkeys(replica.name for _, replica in found))
        # Profiles are files.
        profiles = await asyncio.to_thread(lambda: {name: _profile(uses.get(name, ""), is_admin) for name in names})
        data = [{**_engine(model, one, is_admin), "profile": profiles[one.name]} for model, one in found]
        return Whole.of({"object": "list", "data": data})

    return [Route("GET", "/v1/engines", listed, "models", shape)]


def _engine(model: str, replica: Replica, is_admin: bool) -> dict[str, Any]:
    traits = replica.engine.traits
    return {
        "object": "engine",
        "model": model,
        "engine": replica.name,
        "kind": traits.name,
        "targets": list(traits.targets),
        "honours": sorted(traits.honours),
        "goes_on_cheaply": traits.goes_on_cheaply,
        "state": READY if replica.health.is_well else RESTING,
        "why": without_secrets(replica.health.last_error) if is_admin else "",
    }


def _profile(use: str, is_admin: bool) -> dict[str, Any] | None:
    url, model = place_of(use)
    found = find_profile(url, model) if url else None
    if found is None:
        return None
    return {**found.as_dict(), "url": without_secrets(found.url) if is_admin else ""}
