"""Row 12: programs are started from the configuration alone. No request can name one, on any route."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ferrule.server import app
from server.keys import bearer
from threats.audit import SPAWNS, audited
from threats.house import ANN, bodies, endless, filled, house, knock, socket_paths

COMMAND = "touch ferrule-was-here"


def naming(path: Path) -> dict[str, Any]:
    """Everything that any server of this kind has ever taken a program from."""
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
    mark = tmp_path / "was-here"

    async def scenario() -> set[int]:
        found: set[int] = set()
        async with house(engine=endless()) as client:
            everything = naming(mark)
            with audited(SPAWNS) as spawned:
                for route in app.routes_of(client.gateway):
                    for more in [everything, *({name: value} for name, value in everything.items())]:
                        for body in bodies(route, **more):
                            answer = await client.ask(route.method, filled(route.path), body, bearer(ANN))
                            found.add(answer.status)
                for path in socket_paths(client):
                    await knock(client, path, bearer(ANN))
            assert spawned == []
        return found

    statuses = asyncio.run(scenario())
    assert not mark.exists()
    assert {200, 400} <= statuses
    assert 500 not in statuses


def test_the_hook_hears_of_a_process_when_there_is_one() -> None:
    import subprocess
    import sys

    with audited(SPAWNS) as spawned:
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert spawned


@pytest.mark.parametrize(
    "path", ["/mcp/servers", "/v1/mcp", "/v1/config", "/admin", "/mcp-rest/test/connection", "/v1/engines"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_there_is_no_route_to_add_a_server_an_engine_or_a_setting(path: str, method: str) -> None:
    async def scenario() -> int:
        async with house("Hello.") as client:
            return (await client.ask(method, path, {"command": COMMAND}, bearer(ANN))).status

    assert asyncio.run(scenario()) == 404
