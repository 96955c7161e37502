"""An MCP server for the older protocol in plain Python, for behaviour that an SDK would never show. It starts fast.

`python mcp_plain_server.py PAGES [RESULTS]`, where PAGES is JSON: a list of pages of tools, each tool as it is sent. A
tool's name says what it does. RESULTS are the results of other requests by method; a list has a result for each cursor.
Without a page the server has no tools, and does not know the request for them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

PAGES: list[list[Any]] = json.loads(sys.argv[1])
RESULTS: dict[str, Any] = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
NAMED = {"jsonrpc": "2.0"}
# Calls that are answered some time after the next list was refused.
LATE: list[int] = []


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({**message, **NAMED}) + "\n")
    sys.stdout.flush()


def list_tools(params: dict[str, Any]) -> dict[str, Any]:
    number = int(params.get("cursor") or 0)
    following = {"nextCursor": str(number + 1)} if number + 1 < len(PAGES) else {}
    return {"tools": PAGES[number], **following}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def call_tool(id: int, params: dict[str, Any]) -> None:
    arguments = params.get("arguments") or {}
    match params["name"]:
        case "die":
            os._exit(3)
        case "silent":
            pass
        case "flood":
            # The id comes last, as in the JavaScript SDK.
            sys.stdout.write('{"result": {"content": [{"type": "text", "text": "' + "x" * arguments["bytes"] + '"}]}, ')
            sys.stdout.write(f'"jsonrpc": "2.0", "id": {id}}}\n')
            sys.stdout.flush()
        case "refuse":
            say(id=id, error={"code": arguments["code"], "message": "no"})
        case "outlive":
            LATE.append(id)
            say(method="notifications/tools/list_changed")
        case "nonsense":
            say(id=id, result={"content": "this is no list"})
        case "misfit":
            say(id=id, result=text("x", structuredContent={"total": "three"}))
        case "change" | "change_quietly" as name:
            PAGES[0][0]["description"] = "Something else."
            if name == "change":
                say(method="notifications/tools/list_changed")
            say(id=id, result=text("changed"))
        case name:
            say(id=id, result=text(name, structuredContent={"arguments": arguments, "meta": params.get("_meta")}))


def main() -> None:
    print("listening, as some servers print where they must not")
    for line in sys.stdin:
        message = json.loads(line)
        id, params = message.get("id"), message.get("params") or {}
        match message["method"]:
            case "initialize":
                capabilities: dict[str, Any] = {"tools": {"listChanged": True}} if PAGES else {}
                capabilities |= {method.split("/")[0]: {} for method in RESULTS}
                named = {"name": "plain", "version": "1"}
                version = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": named}
                say(id=id, result=version)
            case "tools/list" if LATE:
                say(id=id, error={"code": -32603, "message": "no list now"})
                time.sleep(0.2)
                say(id=LATE.pop(), result=text("late"))
            case method if method in RESULTS:
                result = RESULTS[method]
                say(id=id, result=result[int(params.get("cursor") or 0)] if isinstance(result, list) else result)
            case "tools/list" if PAGES:
                say(id=id, result=list_tools(params))
            case "tools/call":
                call_tool(id, params)
            case _ if id is not None:
                say(id=id, error={"code": -32601, "message": "method not found"})
            case _:
                pass


main()
