"""`/v1/sources`: the sources of the gateway's tools and their status.

For admins only: it names tools that others may not know of, and contains the answers of servers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ferrule.dialects.openai_error import error_body
from ferrule.errors import FerruleError
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response, Route
from ferrule.server.secret_mask import mask_secrets
from ferrule.sources.status import SourceStatus, ToolSnapshot

_TOO_DEEP = {"$comment": "nested too deeply to be shown"}


def routes(gateway: Gateway) -> list[Route]:
    async def list_sources(request: Request) -> AnyResponse:
        catalog, max_depth = gateway.tool_catalog, gateway.config.limits.json_depth
        data = [_source_view(one, max_depth) for one in catalog.statuses]
        return Response.json({"object": "list", "data": data, "notices": list(catalog.notices)})

    return [Route("GET", "/v1/sources", list_sources, "admin", render_error)]


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


def _source_view(one: SourceStatus, max_depth: int) -> dict[str, Any]:
    quarantined = [
        {
            "tool": tool.tool,
            "why": tool.reason,
            "before": _definition_view(tool.before, max_depth) if tool.before else None,
            "now": _definition_view(tool.now, max_depth),
        }
        for tool in one.quarantined
    ]
    return {
        "object": "source",
        "name": one.name,
        "kind": one.kind,
        "state": one.state.value,
        "why": mask_secrets(one.reason),
        "trust": one.trust.value,
        "tools": sorted(one.tools or ()),
        "quarantined": quarantined,
    }


def _definition_view(one: ToolSnapshot, max_depth: int) -> dict[str, Any]:
    """Return the definition. Untrusted servers may nest it without limit; it is shown as deeply as a request may be."""
    return {
        "description": one.description,
        "parameters": one.parameters if _is_within(one.parameters, max_depth) else _TOO_DEEP,
        "fingerprint": one.fingerprint,
        "more": one.more if _is_within(one.more, max_depth) else _TOO_DEEP,
    }


def _is_within(value: object, max_depth: int) -> bool:
    level: list[object] = [value]
    for _ in range(max_depth):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return True
    return False


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()
