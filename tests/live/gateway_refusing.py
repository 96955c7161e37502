"""A gateway with a key, two models and an upstream that breaks: everything that a client can be refused for."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.gateway_clients import Clients, clients
from lab.gateway_process import gateway_process
from lab.gateway_recorder import Recorder, start_recorder
from lab.gateway_verdicts import RunVerdict
from live.broken_upstream import broken_upstream

KEY = "fk_right"
REMOTE = {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:1/schema.json"}}}
_CONFIG = """
[engines.words]
use = "fake:hello"

[engines.broken]
use = "openai:m?tries=1"
url = "{url}"

[[keys]]
name = "test"
sha256 = "{digest}"
"""


@dataclass(frozen=True, slots=True)
class Refusing:
    recorder: Recorder
    clients: Clients

    def error(self, venv: str, op: str, **given: Any) -> str:
        """What the client raised, by its class and words; empty where it raised nothing."""
        return self.told(venv, op, **given)["error"] or ""

    def told(self, venv: str, op: str, **given: Any) -> dict[str, Any]:
        asked = {"url": self.recorder.url, "key": KEY, "model": "words", **given}
        return self.clients.ask(venv, op, asked)

    def judged(self) -> RunVerdict:
        """What was sent since it was last asked, read again."""
        return self.clients.check_exchanges(self.recorder.take())


@contextmanager
def refusing(folder: Path) -> Generator[Refusing]:
    with broken_upstream() as upstream:
        file = folder / "ferrule.toml"
        file.write_text(_CONFIG.format(url=upstream, digest=hashlib.sha256(KEY.encode()).hexdigest()))
        with (
            gateway_process(("--config", str(file)), engine=None) as gateway,
            start_recorder(gateway.url) as recorder,
            clients() as started,
        ):
            yield Refusing(recorder, started)
