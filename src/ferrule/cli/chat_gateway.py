"""A running gateway as the model of `ferrule chat`: it runs its own tools and answers over OpenAI's chat API."""

from __future__ import annotations

import os

from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.engines.engine import Engine
from ferrule.engines.http import HttpClient
from ferrule.engines.profile import endpoint
from ferrule.engines.registry import load_engine
from ferrule.errors import DefinitionError, EngineError

GATEWAY_KEY = "FERRULE_KEY"
"""The environment variable with the gateway's key."""
_HINT = "Start it with `ferrule serve`, or give its address: --url http://HOST:PORT"


async def first_model(url: str) -> str:
    """Return the first model that a gateway lists."""
    models = await _models(url)
    if not models:
        raise EngineError(f"{url} lists no models", hint=_HINT)
    return models[0]


async def load_gateway_model(url: str, name: str) -> Engine:
    """Return the engine that asks a gateway for a model; raises `DefinitionError` if it does not have it."""
    models = await _models(url)
    if name not in models:
        raise DefinitionError(f"{url} has no model {name!r}", hint=f"It has: {', '.join(models)}.")
    # Never the key of OpenAI, which the engine reads from the environment otherwise.
    return load_engine(f"openai:{name}", url=f"{endpoint(url)}/v1", key=_key() or "none")


async def _models(url: str) -> list[str]:
    if not url.startswith(("http://", "https://")):
        raise DefinitionError(f"{url!r} is not a URL", hint=_HINT)
    client = HttpClient(endpoint(url), {"authorization": f"Bearer {_key()}"} if _key() else {})
    try:
        listed = entries(mapping(await client.get("/v1/models")).get("data"))
    finally:
        await client.close()
    return [name for one in listed if (name := text(one.get("id")))]


def _key() -> str:
    return os.environ.get(GATEWAY_KEY, "")
