"""An MCP server of the older protocol in plain Python, which tries what it is told to. It only opens files to read.

Its tools are `read` (a file), `list` (a directory), `connect` (to a port on loopback), `write` (a file that the test
names), `rights` (which of these paths it could write, without trying), and `status` (its capabilities and its user).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

TOOLS = ("read", "list", "connect", "write", "rights", "status")


def run(name: str, arguments: dict[str, Any]) -> Any:
    path = arguments.get("path", "")
    try:
        match name:
            case "read":
                return Path(path).read_text(encoding="utf-8")
            case "list":
                return sorted(os.listdir(path))
            case "connect":
                socket.create_connection(("127.0.0.1", arguments["port"]), 30).close()
                return "connected"
            case "write":
                Path(path).write_text("written", encoding="utf-8")
                return "written"
            case "rights":
                return [one for one in arguments["paths"] if os.access(one, os.W_OK)]
            case _:
                lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
                (effective,) = [line.split()[1] for line in lines if line.startswith("CapEff")]
                return {"uid": os.getuid(), "capabilities": int(effective, 16), "home": os.environ["HOME"]}
    except OSError as error:
        return f"refused: {error.strerror}"


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result: dict[str, Any] = {}
        match message["method"]:
            case "initialize":
                info = {"name": "probe", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
            case "tools/call":
                params = message["params"]
                answer = run(params["name"], params.get("arguments") or {})
                result = {"content": [{"type": "text", "text": json.dumps(answer)}]}
            case _:
                error = {"code": -32601, "message": "method not found"}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
                continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


main()
