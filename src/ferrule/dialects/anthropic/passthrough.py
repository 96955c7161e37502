"""Send a client's own body on to an engine with Anthropic's API: unchanged parts stay as the client wrote them.

| part | sent unchanged |
|---|---|
| `system` and `messages` | if the conversation begins with the messages that were read; what follows is encoded |
| `tools` | if the tools are those that were read: all that a client runs, also deferred ones; else each by its name |
| Anthropic's tool search | if the engine carries it out (`Traits.tool_search`); else `run.deferring_engine` does |
| `thinking`, `context_management` | unless a call is required, and not by the client: the API refuses both |
| `output_config`, `metadata`, `cache_control` | always, except the format of `output_config` |

Other tools that Anthropic would run are left out here too: their results have no place in Ferrule's events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ferrule.core.client_body import ClientBody
from ferrule.core.request import ChoiceMode, ToolCallRequest
from ferrule.dialects.anthropic.messages import messages_body
from ferrule.dialects.anthropic.published_tools import TOOL_SEARCH, server_tool

API = "anthropic"
BETA = "anthropic-beta"
_PASSED = ("metadata", "cache_control")
_THINKING = ("thinking", "context_management")
_PASSED_OBJECTS = (*(f"{name}." for name in _THINKING), "output_config.", "messages[]", "system[]", "tools[].")
"""The beginnings of the paths of fields that are sent on. `tools[]=` are tools that the provider would run itself."""


def still_ignored(ignored: Iterable[str]) -> tuple[str, ...]:
    """Return what nobody carries out of a body that is sent on, out of what Ferrule itself does not carry out."""
    return tuple(path for path in ignored if path not in _THINKING and not path.startswith(_PASSED_OBJECTS))


def client_body_of(request: ToolCallRequest) -> ClientBody | None:
    """Return the body that the client wrote for this API, if it did."""
    client = request.client_body
    return client if client is not None and client.api == API else None


def pass_on(body: dict[str, Any], request: ToolCallRequest, client: ClientBody, *, reasoning: bool) -> None:
    """Replace in the body of a request what the client wrote itself."""
    count, written = len(client.messages), client.body
    if request.messages[:count] == client.messages:
        body["system"] = written.get("system")
        body["messages"] = [*written["messages"], *_later_messages(request, count, reasoning=reasoning)]
    _pass_tools(body, request, client)
    for name in _PASSED:
        body[name] = written.get(name)
    is_forced = request.choice.mode is ChoiceMode.REQUIRED
    if not is_forced or _required_by(client):
        for name in _THINKING:
            body[name] = written.get(name)
    config = written.get("output_config")
    if isinstance(config, dict):
        others = {key: value for key, value in cast("dict[str, Any]", config).items() if key != "format"}
        body["output_config"] = {**others, **(body.get("output_config") or {})} or None


def _later_messages(request: ToolCallRequest, count: int, *, reasoning: bool) -> list[dict[str, Any]]:
    searches = request.tool_search is not None
    return messages_body(request.messages[count:], reasoning=reasoning, searches=searches)


def _required_by(client: ClientBody) -> bool:
    choice: Any = client.body.get("tool_choice")
    return isinstance(choice, dict) and cast("dict[str, Any]", choice).get("type") in ("any", "tool")


def _pass_tools(body: dict[str, Any], request: ToolCallRequest, client: ClientBody) -> None:
    written: list[dict[str, Any]] = client.body.get("tools") or []
    search = request.tool_search.name if request.tool_search else ""
    entries = [entry for entry in written if not _server_tool(entry) or _server_tool(entry) == search]
    if not search and any(_server_tool(entry) in TOOL_SEARCH for entry in written):
        entries = [{key: value for key, value in entry.items() if key != "defer_loading"} for entry in entries]
    names = request.choice.names
    is_subset = names is not None and (len(names) > 1 or request.choice.mode is not ChoiceMode.REQUIRED)
    if not is_subset and request.tools == client.tools:
        body["tools"] = entries or None
        return
    by_name = {entry.get("name"): entry for entry in entries}
    known = {tool.name for tool in client.tools if tool in request.tools} | ({search} if search else set[str]())
    encoded: list[dict[str, Any]] = body.get("tools") or []
    body["tools"] = [by_name.get(tool["name"], tool) if tool["name"] in known else tool for tool in encoded] or None


def _server_tool(entry: dict[str, Any]) -> str:
    return server_tool(entry.get("type") or "custom")
