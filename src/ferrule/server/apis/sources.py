"""`/v1/sources`: where the gateway's tools come from, and how it stands with each, in the source's own words.

For who runs the gateway: it names tools that others may not know of, and says what a server answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ferrule.dialects.openai_error import error_body
from ferrule.errors import FerruleError
from ferrule.server.addresses import without_secrets
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Whole
from ferrule.sources.status import Described, Standing

_TOO_DEEP = {"$comment": "nested too deeply to be shown"}


def routes(gateway: Gateway) -> list[Route]:
    async def listed(asked: Asked) -> Answer:
        toolbox, most = gateway.toolbox, gateway.config.limits.json_depth
        data = [_source(one, most) for one in toolbox.standings]
        return Whole.of({"object": "list", "data": data, "notices": list(toolbox.notices)})

    return [Route("GET", "/v1/sources", listed, "admin", shape)]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


def _source(one: Standing, most: int) -> dict[str, Any]:
    held = [
        {
            "tool": held.tool,
            "why": held.why,
            "before": _described(held.before, most) if held.before else None,
            "now": _described(held.now, most),
        }
        for held in one.quarantined
    ]
    return {
        "object": "source",
        "name": one.name,
        "kind": one.kind,
        "state": one.state.value,
        "why": without_secrets(one.why),
        "trust": one.trust.value,
        "tools": sorted(one.tools or ()),
        "quarantined": held,
    }


def _described(one: Described, most: int) -> dict[str, Any]:
    """What strangers send may be nested as deeply as they like; it is shown as deeply as a request may be."""
    return {
        "description": one.description,
        "parameters": one.parameters if _is_within(one.parameters, most) else _TOO_DEEP,
        "fingerprint": one.fingerprint,
        "more": one.more if _is_within(one.more, most) else _TOO_DEEP,
    }


def _is_within(value: object, most: int) -> bool:
    level: list[object] = [value]
    for _ in range(most):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return True
    return False


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()
