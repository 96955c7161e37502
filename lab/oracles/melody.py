"""Cohere's own renderer and streaming parser for Command models: cmd3, cmd4, and cmd5 (the cofl form)."""

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

_VERSIONS: Final = ("cmd3", "cmd4", "cmd5")
_ROLES: Final = {"assistant": "chatbot"}


class Call(TypedDict):
    id: str
    name: str
    arguments: str


class MelodyReply(TypedDict):
    content: str
    reasoning: str
    calls: list[Call]


def render(version: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """A conversation (OpenAI messages) as the prompt for its next turn."""
    config = {
        "messages": [_message(message) for message in messages],
        "available_tools": [_tool_description(tool) for tool in tools],
    }
    return getattr(_library(version), f"render_{version}")(config)


def parse(version: str, chunks: Sequence[str]) -> MelodyReply:
    """The vendor's parse of a completion that arrives in these chunks."""
    stream = getattr(_library(version).PyFilter, version)()
    steps = [*(stream.write_decoded(chunk) for chunk in chunks), stream.flush_partials()]
    return {
        "content": "".join(step.content or "" for step in steps),
        "reasoning": "".join(step.reasoning or "" for step in steps),
        "calls": _sum_by_index([call for step in steps for call in step.tool_calls]),
    }


def _sum_by_index(pieces: Sequence[Any]) -> list[Call]:
    calls: dict[int, Call] = {}
    for piece in pieces:
        call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
        call["id"] += piece.id or ""
        call["name"] += piece.name or ""
        call["arguments"] += piece.arguments or ""
    return [calls[index] for index in sorted(calls)]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    result: dict[str, Any] = {
        "role": _ROLES.get(message["role"], message["role"]),
        "content": [{"type": "text", "text": content}] if content else [],
    }
    if message.get("reasoning"):
        result["content"] = [{"type": "thinking", "thinking": message["reasoning"]}, *result["content"]]
    if message.get("tool_calls"):
        result["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    if message.get("tool_call_id"):
        result["tool_call_id"] = message["tool_call_id"]
    return result


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call["function"]["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call["id"], "name": call["function"]["name"], "parameters": text}


def _tool_description(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function", tool)
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "parameters": function.get("parameters", {}),
    }


def _library(version: str) -> Any:
    if version not in _VERSIONS:
        raise ValueError(f"version {version!r} is none of {', '.join(_VERSIONS)}")
    return importlib.import_module("cohere_melody")
