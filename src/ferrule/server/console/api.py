"""`/console/`: serves the console's static files. They need no key: they hold no data, and the page asks for a key.

The page has no privileges: its requests are authenticated like those of any client. The response headers restrict the
browser to files from this host (Content-Security-Policy) and control caching.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from ferrule.errors import NotFoundError
from ferrule.server.apis.chat import render_error
from ferrule.server.config.config import Config
from ferrule.server.console.files import ASSETS, INDEX, STATIC, StaticFile, accepts_gzip, read_files
from ferrule.server.http import OPEN, AnyResponse, Request, Response, Route

PATH = "/console/"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_NO_STORE, _NO_CACHE, _IMMUTABLE = "no-store", "no-cache", "public, max-age=31536000, immutable"
_NOT_BUILT = (
    "The console is not built",
    "In a checkout, scripts/setup-console builds it (it needs npm). An installed package includes it: "
    'pip install --force-reinstall "ferrule[server]". Then start the gateway again.',
)
_NOT_ADMITTED = (
    "This gateway cannot serve the console",
    "It accepts every host name and needs no key, so it cannot tell its own page from one of another site. "
    "List its host names (hosts in ferrule.toml), or create keys (ferrule keys new).",
)
_PLAIN = '<!doctype html><html lang="en"><meta charset="utf-8"><title>{0}</title><h1>{0}</h1><p>{1}</p></html>\n'


def routes(config: Config, folder: Path = STATIC) -> list[Route]:
    files = read_files(folder)
    index = _index(config, files)

    async def send_file(request: Request) -> AnyResponse:
        path = request.params["path"]
        if path in files and path != INDEX:
            return _file_response(files[path], request)
        if path.startswith(ASSETS):
            # A file of another build. Sending the page instead would look like a broken script.
            raise NotFoundError("the console has no such file", hint="Reload the page.")
        # The page itself routes its paths.
        return _file_response(index, request) if isinstance(index, StaticFile) else index

    async def redirect(request: Request) -> AnyResponse:
        return Response(status=307, headers={**HEADERS, "location": PATH, "cache-control": _NO_STORE})

    return [
        Route("GET", "/", redirect, OPEN, render_error),
        Route("GET", PATH.rstrip("/"), redirect, OPEN, render_error),
        Route("GET", PATH + "{path:path}", send_file, OPEN, render_error),
    ]


def _index(config: Config, files: Mapping[str, StaticFile]) -> StaticFile | Response:
    if not config.allows_own_pages:
        return _error_page(403, *_NOT_ADMITTED)
    return files.get(INDEX) or _error_page(404, *_NOT_BUILT)


def _file_response(file: StaticFile, request: Request) -> Response:
    is_compressed = bool(file.compressed) and accepts_gzip(request.headers.get("accept-encoding", ""))
    headers = {**HEADERS, "cache-control": _cache_control(file), "vary": "accept-encoding"}
    if is_compressed:
        headers["content-encoding"] = "gzip"
    return Response(file.compressed if is_compressed else file.body, 200, headers, file.media_type)


def _cache_control(file: StaticFile) -> str:
    if file.is_hashed:
        return _IMMUTABLE
    # The page refers to scripts by hash: a cached page would refer to scripts that no longer exist.
    return _NO_STORE if file.media_type.startswith("text/html") else _NO_CACHE


def _error_page(status: int, title: str, text: str) -> Response:
    page = _PLAIN.format(escape(title), escape(text))
    return Response(page.encode(), status, {**HEADERS, "cache-control": _NO_STORE}, "text/html; charset=utf-8")
