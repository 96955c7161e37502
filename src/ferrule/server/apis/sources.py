"""`/v1/sources`: the sources of the gateway's tools and their status, and logins to MCP servers.

The list is for admins: it names tools that others may not know of. An admin sees the sources and tools that its key may
use; an operator sees all of them, and what servers answered. Anyone may sign in to a server at which principals have
accounts of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Any, cast
from urllib.parse import quote

from ferrule.dialects.openai_error import error_body
from ferrule.errors import FerruleError, NotFoundError
from ferrule.server.auth.host import is_loopback, parse_host
from ferrule.server.gateway import Gateway
from ferrule.server.http import ADMIN, ANY, OPEN, OPERATOR, AnyResponse, Request, Response, Route
from ferrule.server.secret_mask import mask_secrets
from ferrule.server.tool_catalog import ToolCatalog
from ferrule.server.tools.logins import SECONDS, missing_server
from ferrule.sources.status import SourceState, SourceStatus, ToolSnapshot

CALLBACK = "/v1/sources/callback"
_COOKIE = "ferrule_login"
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1><p>{text}</p>'
    '<p><a href="/console/">Console</a></p></html>\n'
)
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_TAKEN = ("Login received", "You may close this page. The console shows the source as ready in a moment.")
_NOT_TAKEN = (
    "No login waits for this",
    "It was finished already, it took too long, or another browser began it. Begin again from the console.",
)
_TOO_DEEP = {"$comment": "nested too deeply to be shown"}


def routes(gateway: Gateway) -> list[Route]:
    async def list_sources(request: Request) -> AnyResponse:
        catalog, max_depth = gateway.tool_catalog, gateway.config.limits.json_depth
        is_operator = OPERATOR in request.rights
        statuses = catalog.statuses if is_operator else _statuses_for(request, catalog)
        data = [_source_view(one, max_depth, has_logins=gateway.logins is not None) for one in statuses]
        notices = list(catalog.notices) if is_operator else []
        return Response.json({"object": "list", "data": data, "notices": notices})

    async def begin_login(request: Request) -> AnyResponse:
        if gateway.logins is None:
            raise NotFoundError(
                "this gateway takes no logins",
                hint='Set mcp_credentials = "ledger" in [sources], or run: ferrule mcp login.',
            )
        origin = _origin(request)
        name = request.params["name"]
        if OPERATOR not in request.rights and not _may_use(request, name):
            raise missing_server(name)
        begun = await gateway.logins.begin(name, request.principal, origin + CALLBACK, rights=request.rights)
        view = {"object": "login", "source": name, "url": begun.url or None, "expires_at": int(begun.expires_at)}
        cookie = f"{_COOKIE}={begun.cookie}; Path={CALLBACK}; Max-Age={int(SECONDS)}; HttpOnly; SameSite=Lax"
        cookie += "; Secure" if origin.startswith("https:") else ""
        headers = {"cache-control": "no-store", **({"set-cookie": cookie} if begun.url else {})}
        return Response.json(view, headers=headers)

    async def finish_login(request: Request) -> AnyResponse:
        cookies = SimpleCookie()
        # A cookie that cannot be read is none.
        with suppress(CookieError):
            cookies.load(request.headers.get("cookie", ""))
        cookie = cookies[_COOKIE].value if _COOKIE in cookies else ""
        is_taken = gateway.logins is not None and await gateway.logins.finish(request.query, cookie)
        title, text = _TAKEN if is_taken else _NOT_TAKEN
        page = _PAGE.format(title=title, text=text).encode()
        return Response(page, 200 if is_taken else 404, _PAGE_HEADERS, "text/html; charset=utf-8")

    return [
        Route("GET", "/v1/sources", list_sources, ADMIN, render_error),
        Route("POST", "/v1/sources/{name}/login", begin_login, ANY, render_error),
        Route("GET", CALLBACK, finish_login, OPEN, render_error),
    ]


def _statuses_for(request: Request, catalog: ToolCatalog) -> list[SourceStatus]:
    """The sources whose tools a client may use, with these tools, and without what only an operator may read."""
    own = {tool.name for tool in catalog.tools_for(request.principal)}
    return [
        replace(one, reason="", tools=tuple(name for name in one.tools or () if name in own), quarantined=())
        for one in catalog.statuses
        if _may_use(request, one.name)
    ]


def _may_use(request: Request, source: str) -> bool:
    # The scopes of a principal cannot say that it may use no source: then it has no scope for tools at all.
    has_any = request.key is None or bool(request.key.config.sources)
    return has_any and request.principal.may_use_source(source)


def _origin(request: Request) -> str:
    """Return where a browser reaches this gateway: what it says, or else the host that was asked."""
    origin = request.headers.get("origin", "")
    if origin.startswith(("http://", "https://")):
        # Only origins that are accepted come this far.
        return origin
    host = request.headers.get("host", "")
    parsed = parse_host(host)
    scheme = "http" if parsed is not None and is_loopback(parsed.name.strip("[]")) else "https"
    return f"{scheme}://{host}"


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


def _source_view(one: SourceStatus, max_depth: int, *, has_logins: bool) -> dict[str, Any]:
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
        "login": f"/v1/sources/{quote(one.name, safe='')}/login"
        if has_logins and one.state is SourceState.NEEDS_LOGIN
        else None,
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
