"""`/v1/stats`: which tools models pick, from the ledger. The words are those of `run.tool_usage`.

A principal sees figures of his own conversations, an admin those of his tenant's: nobody learns of a tool that he was
never offered. Without a moment to begin from, the last thirty days: all that there is may take a while to count.
"""

from __future__ import annotations

import re
import time
from typing import Any

from ferrule.dialects.openai_error import error_body
from ferrule.errors import DefinitionError, FerruleError
from ferrule.run.usage_figures import SelectionSearch
from ferrule.server.apis.approvals import limit_in
from ferrule.server.gateway import Gateway
from ferrule.server.http import ANY, Answer, Asked, Route, Whole

MOST = 1_000
LONGEST = 256
"""As long as a ledger lets a name be."""
_USUAL = 200
_USUAL_SECONDS = 30 * 24 * 3600.0
_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?", re.ASCII)


def routes(gateway: Gateway) -> list[Route]:
    async def shown(asked: Asked) -> Answer:
        most = limit_in(asked, _USUAL, MOST)
        found = await gateway.ledger.selections(_search(asked))
        data = [{"object": "tool.stats", **line.as_dict()} for line in found.lines[:most]]
        misnamed = [one.as_dict() for one in found.misnamed]
        return Whole.of({"object": "list", "data": data, "misnamed": misnamed, "has_more": len(found.lines) > most})

    return [Route("GET", "/v1/stats", shown, ANY, shape)]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


def _search(asked: Asked) -> SelectionSearch:
    tool, principal = asked.query.get("tool", ""), asked.query.get("principal", "")
    for key, value in (("tool", tool), ("principal", principal)):
        if len(value) > LONGEST or "\x00" in value:
            raise DefinitionError(f"{key}: it is too long, or holds a NUL", hint=f"At most {LONGEST} characters.")
    whose = (principal or None) if "admin" in asked.rights else asked.principal.name
    return SelectionSearch(tenant=asked.principal.tenant, principal=whose, since=_since(asked), tool=tool)


def _since(asked: Asked) -> float:
    given = asked.query.get("since")
    if given is None:
        return time.time() - _USUAL_SECONDS
    if not _NUMBER.fullmatch(given):
        raise DefinitionError(f"since: {given[:40]!r} is no moment", hint="Give Unix seconds, such as 1767225600.")
    return float(given)
