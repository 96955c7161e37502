"""Models behind an OpenAI-compatible API, for what no small package can do. Environment variables name them."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from http.client import HTTPException
from importlib import import_module
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ferrule import ToolError

_MOST_BYTES = 1024 * 1024
_TIMEOUT_SECONDS = 120


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the key and the file are for this address only."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The API of one model. `url` ends in `/v1`; `variable` is the beginning of its environment variables."""

    variable: str
    url: str
    model: str
    key: str

    @staticmethod
    def of(variable: str, default_model: str = "") -> Endpoint | None:
        """The endpoint that `{variable}_URL`, `_MODEL` and `_KEY` name; None if there is no URL."""
        url, model, key = (os.environ.get(f"{variable}_{part}", "") for part in ("URL", "MODEL", "KEY"))
        return Endpoint(variable, url.rstrip("/"), model or default_model, key) if url else None

    def post_json(self, path: str, body: dict[str, Any]) -> Any:
        return self._post(path, json.dumps(body).encode(), "application/json")

    def post_file(self, path: str, fields: dict[str, str], name: str, content: bytes) -> Any:
        """Post a form with one file, as a browser does (RFC 7578)."""
        boundary = secrets.token_hex(16)
        parts = [f'Content-Disposition: form-data; name="{field}"\r\n\r\n{value}' for field, value in fields.items()]
        head = "".join(f"--{boundary}\r\n{part}\r\n" for part in parts)
        head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{_file_name(name)}"\r\n'
        head += "Content-Type: application/octet-stream\r\n\r\n"
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return self._post(path, body, f"multipart/form-data; boundary={boundary}")

    def _post(self, path: str, body: bytes, content_type: str) -> Any:
        headers = {"Content-Type": content_type}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = Request(self.url + path, body, headers)
        # The address stays out of the messages: a model reads them.
        try:
            with build_opener(_NoRedirects()).open(request, timeout=_TIMEOUT_SECONDS) as response:
                return json.loads(response.read(_MOST_BYTES))
        except HTTPError as refusal:
            refusal.close()
            raise ToolError(f"the model of {self.variable}_URL answered with status {refusal.code}") from refusal
        except (OSError, HTTPException) as problem:
            raise ToolError(f"the model of {self.variable}_URL cannot be reached") from problem
        except ValueError as problem:
            raise ToolError(f"the model of {self.variable}_URL did not answer with JSON") from problem


def missing_packages(variable: str, *packages: str) -> str | None:
    """What to do if a package is missing. One that is installed and cannot be imported counts as missing."""
    try:
        for package in packages:
            import_module(package)
    except ImportError as problem:
        return f"set {variable}_URL, or install {' and '.join(packages)} ({problem})"
    return None


def _file_name(name: str) -> str:
    """The last part of a path, without characters that could end the form's header."""
    last = name.rpartition("/")[2]
    return "".join(character for character in last if character.isprintable() and character not in '"\\')
