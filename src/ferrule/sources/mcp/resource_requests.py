"""The requests with which a server's resources and prompts are listed and read, as the SDK sends them.

Texts are content, and images, audio and other binary parts are media, as those of a tool's result are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import Client, MCPError

from ferrule.core.outcome import Answered, Outcome
from ferrule.sources.mcp.config import Server
from ferrule.sources.mcp.resource_tools import GET_PROMPT, LIST_PROMPTS, LIST_RESOURCES, READ_RESOURCE
from ferrule.sources.mcp.results import METHOD_NOT_FOUND, outcome_of_result
from ferrule.sources.mcp.tool_list import ListedTool

_FIELDS = ("uri", "uriTemplate", "name", "title", "description", "mimeType", "size")
_ARGUMENT_FIELDS = ("name", "title", "description", "required")


async def read(client: Client, server: Server, tool: ListedTool, arguments: Mapping[str, Any]) -> Outcome:
    """Carry out a call of one of `resource_tools`. Errors of the SDK are the caller's."""
    cursor = arguments.get("cursor")
    if tool is LIST_RESOURCES:
        return await _resources(client, server, cursor)
    if tool is READ_RESOURCE:
        return await _resource(client, server, arguments["uri"])
    if tool is LIST_PROMPTS:
        page = _json(await client.list_prompts(cursor=cursor, cache_mode="refresh"))
        return Answered({"prompts": [_prompt(one) for one in page["prompts"]], **_next(page)})
    assert tool is GET_PROMPT
    return _messages(_json(await client.get_prompt(arguments["name"], dict(arguments.get("arguments") or {}))))


async def _resources(client: Client, server: Server, cursor: str | None) -> Outcome:
    page = _json(await client.list_resources(cursor=cursor, cache_mode="refresh"))
    listed = [_selected(one) for one in page["resources"] if _allows(server, one["uri"])]
    templates = [] if cursor else await _templates(client)
    return Answered({"resources": listed, "templates": templates, **_next(page)})


async def _templates(client: Client) -> list[dict[str, Any]]:
    """The first page of the templates: most servers have none, and some do not know the request."""
    try:
        page = _json(await client.list_resource_templates(cache_mode="refresh"))
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return []
    return [_selected(one) for one in page["resourceTemplates"]]


async def _resource(client: Client, server: Server, uri: str) -> Outcome:
    if not _allows(server, uri):
        return Answered(f"the configuration does not allow the resource {uri!r}", is_error=True, code="bad_request")
    contents = _json(await client.read_resource(uri, cache_mode="refresh"))["contents"]
    return outcome_of_result({"content": [{"type": "resource", "resource": one} for one in contents]})


def _messages(prompt: Mapping[str, Any]) -> Outcome:
    """A prompt as content: who says what. Parts that are no text are media, after the text that names them."""
    blocks: list[Any] = []
    for message in prompt["messages"]:
        blocks += [{"type": "text", "text": f"{message['role']}:"}, message["content"]]
    return outcome_of_result({"content": blocks})


def _allows(server: Server, uri: str) -> bool:
    return server.resources is not None and server.resources.allows(uri)


def _json(answer: Any) -> dict[str, Any]:
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


def _selected(fields: Mapping[str, Any], names: tuple[str, ...] = _FIELDS) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _prompt(fields: Mapping[str, Any]) -> dict[str, Any]:
    arguments = [_selected(one, _ARGUMENT_FIELDS) for one in fields.get("arguments") or ()]
    return {**_selected(fields), **({"arguments": arguments} if arguments else {})}


def _next(page: Mapping[str, Any]) -> dict[str, Any]:
    return {"next_cursor": page["nextCursor"]} if page.get("nextCursor") else {}
