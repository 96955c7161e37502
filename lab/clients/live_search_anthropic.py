"""Anthropic's client with very many deferred tools and Anthropic's own tool search."""

from collections.abc import Mapping
from typing import Any

from lab.clients.live_anthropic import client_of
from lab.clients.many_functions import QUESTION, RESULT, message_tools

RunOptions = Mapping[str, Any]
RunSummary = Mapping[str, Any]


def messages(options: RunOptions) -> RunSummary:
    client = client_of(options)
    name = options.get("search", "tool_search_tool_bm25")
    tools = [{"type": f"{name}_20251119", "name": name}, *message_tools(options["count"])]
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    kinds: list[list[str]] = []
    loaded: list[str] = []
    calls: list[str] = []
    text = ""
    while len(kinds) < options.get("turns", 4):
        request = {"model": options.get("model", "m"), "max_tokens": 200, "messages": history, "tools": tools}
        message = _message(client, options, request)
        kinds.append([block.type for block in message.content])
        for block in message.content:
            if block.type == "tool_search_tool_result":
                loaded += [one.tool_name for one in block.content.tool_references]
        made = [block for block in message.content if block.type == "tool_use"]
        calls += [block.name for block in made]
        text = "".join(block.text for block in message.content if block.type == "text")
        if not made:
            break
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": RESULT} for block in made]
        history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    return {"kinds": kinds, "loaded": loaded, "calls": calls, "text": text}


def _message(client: Any, options: RunOptions, request: dict[str, Any]) -> Any:
    if not options.get("stream"):
        return client.messages.create(**request)
    with client.messages.stream(**request) as stream:
        for _ in stream:
            pass
        return stream.get_final_message()
