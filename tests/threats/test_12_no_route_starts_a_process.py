"""Row 12: only the configuration starts programs. No request can name one, on any route."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ferrule.server import app
from server.keys import bearer
from threats.audit import SPAWNS, audit
from threats.gateway_fixture import ANN, bodies, endless_engine, fill_path, open_websocket, socket_paths, threat_gateway

COMMAND = "touch ferrule-was-here"


def fields_with_command(path: Path) -> dict[str, Any]:
    """All fields from which servers of this kind have ever taken a command."""
    command = ["sh", "-c", f"touch {path}"]
    server = {"command": "sh", "args": ["-c", f"touch {path}"], "env": {"LD_PRELOAD": str(path)}}
    return {
        "mcp_servers": [{"type": "stdio", "name": "x", **server}],
        "mcpServers": {"x": server},
        "servers": {"x": server},
        "tools": [{"type": "mcp", "server_label": "x", "server_url": f"stdio://sh -c 'touch {path}'", **server}],
        "command": command,
        "mcp_command": f"sh -c 'touch {path}'",
        "engine": f"llama:{path}",
        "functions": [{"name": "os:system", "parameters": {}}],
        "env": {"PATH": str(path.parent)},
        "transport": {"type": "stdio", **server},
    }


def test_no_route_starts_a_process_whatever_it_is_sent(tmp_path: Path) -> None:
    marker = tmp_path / "was-here"

    async def scenario() -> set[int]:
        statuses: set[int] = set()
        async with threat_gateway(engine=endless_engine()) as client:
            everything = fields_with_command(marker)
            with audit(SPAWNS) as processes:
                for route in app.routes_of(client.gateway):
                    for more in [everything, *({name: value} for name, value in everything.items())]:
                        for body in bodies(route, **more):
                            answer = await client.request(route.method, fill_path(route.path), body, bearer(ANN))
                            statuses.add(answer.status)
                for path in socket_paths(client):
                    await open_websocket(client, path, bearer(ANN))
            assert processes == []
        return statuses

    statuses = asyncio.run(scenario())
    assert not marker.exists()
    assert {200, 400} <= statuses
    assert 500 not in statuses


def test_the_audit_hook_sees_a_process() -> None:
    import subprocess
    import sys

    with audit(SPAWNS) as processes:
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert processes


@pytest.mark.parametrize(
    "path", ["/mcp/servers", "/v1/mcp", "/v1/config", "/admin", "/mcp-rest/test/connection", "/v1/engines"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_there_is_no_route_to_add_a_server_an_engine_or_a_setting(path: str, method: str) -> None:
    async def scenario() -> int:
        async with threat_gateway("Hello.") as client:
            return (await client.request(method, path, {"command": COMMAND}, bearer(ANN))).status

    assert asyncio.run(scenario()) == 404
