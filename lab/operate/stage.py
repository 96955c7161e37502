"""The servers of the day: Postgres, Valkey, the engine, two gateways, and Envoy before them. All end with the block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.operate.envoy import envoy
from lab.operate.gateway import DRAIN_SECONDS, WORKERS, Gateway
from lab.operate.tool_file import FIRST_LIST, tools_text
from lab.paths import ROOT
from lab.postgres_server import PostgresServer, postgres_server
from lab.servers import answers, free_port, run_server
from live.valkey_server import ValkeyServer, valkey_server

_GATEWAYS: Final = ("one", "two")
_PATIENCE: Final = 300.0
_ENVIRONMENT: Final = {"PYTHONPATH": str(ROOT)}


@dataclass(slots=True)
class Stage:
    """`urls` is where clients send requests: Envoy, or without it both gateways."""

    folder: Path
    postgres: PostgresServer
    valkey: ValkeyServer
    gateways: list[Gateway]
    engine: str
    urls: list[str]

    @property
    def effects(self) -> Path:
        return self.folder / "effects.txt"

    @property
    def tools(self) -> Path:
        return self.folder / "tools.py"

    @property
    def mcp(self) -> Path:
        return self.folder / "mcp.json"

    def write_tools(self, price_list: int) -> None:
        self.tools.write_text(tools_text(self.effects, price_list), encoding="utf-8")

    def write_mcp(self, *, has_server: bool) -> None:
        server = {"command": sys.executable, "args": ["-m", "lab.operate.sums_server"], "cwd": str(ROOT)}
        # It says nothing about its tool, so the configuration does.
        servers = {"sums": {**server, "readOnly": True}} if has_server else {}
        self.mcp.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    def write_config(self, gateway: Gateway, more: str = "") -> None:
        gateway.file.write_text(
            f'[engines.m]\nuse = "openai:m"\nurl = "{self.engine}/v1"\nkey = "x"\n\n'
            f'[server]\nhost = "127.0.0.1"\nport = {gateway.port}\nworkers = {WORKERS}\n'
            f"drain_seconds = {DRAIN_SECONDS}\nrequire_keys = true\n"
            f'ledger = "{self.postgres.address}"\n\n'
            f'[sources]\nfunctions = ["{self.tools}"]\nmcp_config = "{self.mcp}"\n\n'
            f"[tools]\ntools_require_confirmation_for_side_effects = false\n\n"
            f'[quota_store]\naddress = "{self.valkey.address}"\nreplicas = {len(_GATEWAYS)}\n\n{more}',
            encoding="utf-8",
        )

    def create_key(self, name: str, *flags: str) -> str:
        """Run `ferrule keys create`, which needs the ledger and no gateway. Returns the key."""
        command = [sys.executable, "-m", "ferrule", "keys", "create", name, "--json"]
        done = subprocess.run(
            [*command, *flags, "--ledger", self.postgres.address],
            env=os.environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=_PATIENCE,
        )
        return done.stderr.splitlines()[-1]


@contextmanager
def open_stage(folder: Path, *, has_envoy: bool) -> Generator[Stage]:
    """Start all servers in a folder, and end them with the block."""
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        valkey = stack.enter_context(valkey_server(folder))
        port = free_port()
        command = [sys.executable, "-m", "lab.operate.engine", str(port)]
        engine = stack.enter_context(
            run_server("operate-engine", command, _ENVIRONMENT, port, answers("/v1/models"), _PATIENCE)
        )
        gateways = [Gateway(name, free_port(), folder / f"{name}.toml", folder / f"{name}.log") for name in _GATEWAYS]
        stage = Stage(folder, postgres, valkey, gateways, engine, [one.url for one in gateways])
        stage.effects.touch()
        stage.write_tools(FIRST_LIST)
        stage.write_mcp(has_server=False)
        for gateway in gateways:
            stage.write_config(gateway)
            stack.callback(gateway.end)
            gateway.start()
        if has_envoy:
            stage.urls = [stack.enter_context(envoy([one.port for one in gateways], folder))]
        yield stage
