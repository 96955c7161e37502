"""`/v1/stats` and `/v1/stats/tools`: which tools models call, from the ledger. `run.tool_usage` defines the figures.

A principal sees the figures of its own conversations, an admin those of the tenant, so that nobody learns of a tool
that they were never offered. Without `since` the last thirty days count, because counting everything may take long.
"""

from __future__ import annotations

import time
from typing import Any

from ferrule.core.tool import ToolDefinition
from ferrule.dialects.openai_error import error_body
from ferrule.errors import FerruleError
from ferrule.run.tool_usage import ToolSummary, UsageQuery, definition_tokens, summarize_tools
from ferrule.server.apis.query import read_limit, read_terms, read_time
from ferrule.server.gateway import Gateway
from ferrule.server.http import ADMIN, ANY, AnyResponse, Request, Response, Route

MAX_LIMIT = 1_000
MAX_TOOLS = 10_000
MAX_LENGTH = 256
"""The maximum length of a name in the ledger."""
_DEFAULT_LIMIT = 200
_DEFAULT_SECONDS = 30 * 24 * 3600.0


def routes(gateway: Gateway) -> list[Route]:
    async def get_stats(request: Request) -> AnyResponse:
        limit = read_limit(request, _DEFAULT_LIMIT, MAX_LIMIT)
        stats = await gateway.ledger.usage_report(_search(request))
        data = [{"object": "tool.stats", **line.as_dict()} for line in stats.rows[:limit]]
        misnamed = [one.as_dict() for one in stats.unknown_names]
        return Response.json(
            {"object": "list", "data": data, "misnamed": misnamed, "has_more": len(stats.rows) > limit}
        )

    async def get_tool_stats(request: Request) -> AnyResponse:
        limit = read_limit(request, _DEFAULT_LIMIT, MAX_TOOLS)
        query = _search(request)
        report = await gateway.ledger.usage_report(query)
        summaries = summarize_tools(report, await gateway.ledger.call_seconds(query))
        own = {tool.name: tool for tool in gateway.tool_catalog.tools_for(request.principal)}
        data = [_summary_view(one, own.get(one.tool)) for one in summaries[:limit]]
        return Response.json({"object": "list", "data": data, "has_more": len(summaries) > limit})

    return [
        Route("GET", "/v1/stats", get_stats, ANY, render_error),
        Route("GET", "/v1/stats/tools", get_tool_stats, ANY, render_error),
    ]


def _summary_view(summary: ToolSummary, definition: ToolDefinition | None) -> dict[str, Any]:
    """Of a tool that the gateway does not offer to this principal, the size of the definition is not known."""
    tokens = None if definition is None else definition_tokens(definition)
    return {"object": "tool.summary", **summary.as_dict(), "definition_tokens": tokens}


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


def _search(request: Request) -> UsageQuery:
    terms = read_terms(request, "tool", "principal", max_length=MAX_LENGTH)
    owner = (terms["principal"] or None) if ADMIN in request.rights else request.principal.name
    since = read_time(request, "since", time.time() - _DEFAULT_SECONDS)
    return UsageQuery(tenant=request.principal.tenant, principal=owner, since=since, tool=terms["tool"])
