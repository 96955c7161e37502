"""`/console/`: the page for people, sent to whoever asks: it holds nothing, and asks for a key itself.

A page is nobody by being ours: what it asks for is let in or refused like any client's. Here its browser is told what
it may load (itself, and nothing of any other host) and how long it may keep what.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from ferrule.errors import NotFoundError
from ferrule.server.apis.chat import shape
from ferrule.server.config.config import Config
from ferrule.server.console.files import ASSETS, INDEX, STATIC, File, read_files, takes_gzip
from ferrule.server.http import OPEN, Answer, Asked, Route, Whole

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
_NEVER, _ASK_FIRST, _FOR_EVER = "no-store", "no-cache", "public, max-age=31536000, immutable"
_NOT_BUILT = (
    "The console was not built",
    "In a checkout, scripts/setup-console builds it (it needs npm). An installed package brings it along: "
    'pip install --force-reinstall "ferrule[server]". Then start the gateway again.',
)
_NOT_ADMITTED = (
    "This gateway cannot have a console yet",
    "It answers to every name and asks nobody for a key, so that it cannot tell its own page from one of a stranger. "
    "Name the hosts that it is reached by (hosts in ferrule.toml), or make keys (ferrule keys new).",
)
_PLAIN = '<!doctype html><html lang="en"><meta charset="utf-8"><title>{0}</title><h1>{0}</h1><p>{1}</p></html>\n'


def routes(config: Config, folder: Path = STATIC) -> list[Route]:
    files = read_files(folder)
    index = _index(config, files)

    async def sent(asked: Asked) -> Answer:
        path = asked.params["path"]
        if path in files and path != INDEX:
            return _sent(files[path], asked)
        if path.startswith(ASSETS):
            # Of another build. The page in its stead would be taken for a script that is broken.
            raise NotFoundError("the console has no such file", hint="Load the page again.")
        # The page itself knows what its addresses mean.
        return _sent(index, asked) if isinstance(index, File) else index

    async def led(asked: Asked) -> Answer:
        return Whole(status=307, headers={**HEADERS, "location": PATH, "cache-control": _NEVER})

    return [
        Route("GET", "/", led, OPEN, shape),
        Route("GET", PATH.rstrip("/"), led, OPEN, shape),
        Route("GET", PATH + "{path:path}", sent, OPEN, shape),
    ]


def _index(config: Config, files: Mapping[str, File]) -> File | Whole:
    if not config.admits_own_pages:
        return _said(403, *_NOT_ADMITTED)
    return files.get(INDEX) or _said(404, *_NOT_BUILT)


def _sent(file: File, asked: Asked) -> Whole:
    is_compressed = bool(file.compressed) and takes_gzip(asked.headers.get("accept-encoding", ""))
    headers = {**HEADERS, "cache-control": _kept(file), "vary": "accept-encoding"}
    if is_compressed:
        headers["content-encoding"] = "gzip"
    return Whole(file.compressed if is_compressed else file.body, 200, headers, file.media_type)


def _kept(file: File) -> str:
    if file.is_hashed:
        return _FOR_EVER
    # The page names its scripts by their hashes: an old one would look for what is gone.
    return _NEVER if file.media_type.startswith("text/html") else _ASK_FIRST


def _said(status: int, title: str, words: str) -> Whole:
    page = _PLAIN.format(escape(title), escape(words))
    return Whole(page.encode(), status, {**HEADERS, "cache-control": _NEVER}, "text/html; charset=utf-8")
