"""A real OpenID Connect provider (`scripts/setup-oidc`) as a process, whose clients get tokens from it."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waiting import PATIENCE

AUDIENCE = "https://gateway.example"
_FOLDER = Path(__file__).parents[2] / ".cache" / "oidc"
_SECRET = "a-secret-for-tests"


@dataclass(frozen=True, slots=True)
class OidcProvider:
    process: subprocess.Popen[str]
    issuer: str

    def token(self, client: str = "ann", scope: str = "agent", audience: str = AUDIENCE) -> str:
        """Get an access token for a client, as a service does."""
        form = {
            **{"grant_type": "client_credentials", "client_id": client, "client_secret": _SECRET},
            **{"scope": scope, "resource": audience},
        }
        data = urllib.parse.urlencode(form).encode()
        with urllib.request.urlopen(f"{self.issuer}/token", data, timeout=PATIENCE) as answer:
            return json.loads(answer.read())["access_token"]

    def published_key(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.issuer}/jwks", timeout=PATIENCE) as answer:
            return json.loads(answer.read())["keys"][0]

    def command(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        assert _line(self.process) == {"done": text}


@contextmanager
def oidc_provider() -> Generator[OidcProvider]:
    program = Path(__file__).with_name("oidc_provider.mjs")
    process = subprocess.Popen(
        ["node", str(program), str(_FOLDER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # It warns that it keeps everything in memory.
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield OidcProvider(process, _line(process)["issuer"])
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Read one line of JSON; other lines are notices."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            return json.loads(line)
    raise AssertionError("the provider has ended: run scripts/setup-oidc")
