"""`ferrule serve` as a process of its own, with a fake engine, tools from a file and keys of two tenants."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.keys import key
from waiting import PATIENCE, eventually

TESTS = Path(__file__).parents[1]
ANN, EVE = "ann-of-acme", "eve-of-evil"
_SERVES = re.compile(r"serving on (http://\S+)")


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    process: subprocess.Popen[bytes]
    url: str
    output: Path

    def request(self, method: str, path: str, body: Any = None, who: str = ANN) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        headers = {"authorization": f"Bearer {who}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def text(self, path: str) -> str:
        """The text of a page that needs no key."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def call(self, name: str, who: str = ANN, **arguments: Any) -> tuple[int, Any]:
        return self.request("POST", "/v1/tools/call", {"name": name, "arguments": arguments}, who)

    def lines(self) -> list[dict[str, Any]]:
        """The log."""
        text = self.output.read_text(encoding="utf-8", errors="replace")
        # The last line may be half written.
        whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [json.loads(line) for line in whole if line.startswith("{")]


@contextmanager
def gateway_process(
    folder: Path, tools: Path, *, more: str = "", drain_seconds: float = 1.0, tool_seconds: float = 1.0
) -> Generator[GatewayProcess]:
    """Start a gateway and wait until it serves. `more` are lines for its configuration's `[sources]`."""
    lines = [
        '[engines.e0]\nuse = "fake:Hello."',
        f'[server]\nport = 0\ndrain_seconds = {drain_seconds}\nledger = "{folder / "ledger.db"}"',
        f"[tools]\ntools_per_tool_timeout_seconds = {tool_seconds}",
        f'[sources]\nfunctions = ["{tools}"]\n{more}',
        *(
            f'[keys.{name}]\nsha256 = "{key(name).sha256}"\ntenant = "{name}"\ntools = ["*"]\nadmin = true{more}'
            for name, more in ((ANN, "\noperator = true"), (EVE, ""))
        ),
    ]
    with gateway_with_config(folder, "\n".join(lines)) as gateway:
        yield gateway


@contextmanager
def gateway_with_config(folder: Path, text: str, *flags: str) -> Generator[GatewayProcess]:
    """Start a gateway with a whole configuration, and wait until it serves."""
    config, output = folder / "ferrule.toml", folder / "output"
    config.write_text(text, encoding="utf-8")
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "ferrule", "serve", "--config", str(config), *flags],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])},
            stdout=stream,
            stderr=stream,
        )
    try:
        eventually(lambda: _SERVES.search(output.read_text()) is not None or process.poll() is not None)
        match = _SERVES.search(output.read_text())
        assert match is not None, output.read_text()
        yield GatewayProcess(process, match[1], output)
    finally:
        process.kill()
        process.wait()
