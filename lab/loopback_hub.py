"""A Hugging Face hub on this machine that serves files of this machine, for tests and for the timed quick start.

It answers what huggingface_hub asks: the model's description with sizes and hashes, and the files with ranges. What a
hub may do wrong can be set: break off a download, change a byte, refuse a repository.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler
from json import dumps
from pathlib import Path

from lab.loopback_server import loopback_server

COMMIT = "c" * 40
_INFO = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/([^?]+))?")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/([^?]+)")
_RANGE = re.compile(r"bytes=(\d+)-")


@dataclass
class Hub:
    """What the hub has and does. `requests` are the method, path and range of each request."""

    files: Mapping[str, Path]
    repository: str = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
    revisions: tuple[str, ...] = ("main",)
    gated: bool = False
    breaks_after: int | None = None
    """A download without a range is broken off after that many bytes."""
    damages: bool = False
    claimed_size: int | None = None
    requests: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    url: str = ""


@contextmanager
def loopback_hub(hub: Hub) -> Generator[Hub]:
    """Serve the hub until the end of the block; its `url` is the value for `HF_ENDPOINT`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(has_body=True)

        def do_HEAD(self) -> None:
            self._answer(has_body=False)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

        def _answer(self, *, has_body: bool) -> None:
            hub.requests.append((self.command, self.path, self.headers.get("Range", "")))
            if info := _INFO.fullmatch(self.path.partition("?")[0]):
                self._describe(info[1], info[2] or "main")
            elif file := _FILE.fullmatch(self.path.partition("?")[0]):
                self._send_file(file[1], file[2], file[3], has_body=has_body)
            else:
                self._refuse(404, "RepoNotFound")

        def _refuse(self, status: int, code: str) -> None:
            self._head(status, {"X-Error-Code": code, "X-Error-Message": code, "Content-Length": "0"})

        def _is_there(self, repository: str, revision: str) -> bool:
            if repository != hub.repository:
                self._refuse(404, "RepoNotFound")
            elif hub.gated:
                self._refuse(403, "GatedRepo")
            elif revision not in (*hub.revisions, COMMIT):
                self._refuse(404, "RevisionNotFound")
            else:
                return True
            return False

        def _describe(self, repository: str, revision: str) -> None:
            if not self._is_there(repository, revision):
                return
            siblings = [
                {"rfilename": name, "size": _size(hub, path), "lfs": _lfs(hub, path)}
                for name, path in hub.files.items()
            ]
            model = {"_id": "1", "id": hub.repository, "modelId": hub.repository, "sha": COMMIT, "siblings": siblings}
            body = dumps({**model, "private": False, "tags": [], "downloads": 0, "likes": 0}).encode()
            self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
            self.wfile.write(body)

        def _send_file(self, repository: str, revision: str, name: str, *, has_body: bool) -> None:
            if not self._is_there(repository, revision):
                return
            if name not in hub.files:
                self._refuse(404, "EntryNotFound")
                return
            path = hub.files[name]
            size = path.stat().st_size
            matched = _RANGE.match(self.headers.get("Range", ""))
            start = int(matched[1]) if matched else 0
            end = size if matched or hub.breaks_after is None else min(size, hub.breaks_after)
            headers = {
                **{"ETag": f'"{sha256_of(path)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"},
                "Content-Length": str(size - start),
                **({"Content-Range": f"bytes {start}-{size - 1}/{size}"} if matched else {}),
            }
            self._head(206 if matched else 200, headers)
            if has_body:
                self._write(path, start, end)
                self.close_connection = end < size

        def _write(self, path: Path, start: int, end: int) -> None:
            with path.open("rb") as file:
                file.seek(start)
                while start < end and (piece := file.read(min(1 << 20, end - start))):
                    start += len(piece)
                    if hub.damages and start == end:
                        piece = piece[:-1] + bytes([piece[-1] ^ 1])
                    self.wfile.write(piece)

        def _head(self, status: int, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

    with loopback_server(Handler) as url:
        hub.url = url
        yield hub


def _size(hub: Hub, path: Path) -> int:
    return path.stat().st_size if hub.claimed_size is None else hub.claimed_size


def _lfs(hub: Hub, path: Path) -> dict[str, object]:
    return {"sha256": sha256_of(path), "size": _size(hub, path), "pointerSize": 134}


@cache
def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
