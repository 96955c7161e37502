"""Streams of our own gateway, and ways to spoil them: each leaves out or doubles one thing that a client reads by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from ferrule import Reply, ToolCall
from ferrule.core.event import Usage
from lab.gateway_recorder import Sent, events_of
from server.client import gateway_of, speaking

TOOL = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": "get", "parameters": TOOL}}],
            "stream_options": {"include_usage": True},
        },
    ),
    "responses": (
        "/v1/responses",
        {"input": "x", "tools": [{"type": "function", "name": "get", "parameters": TOOL}], "store": False},
    ),
    "messages": (
        "/v1/messages",
        {
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"name": "get", "input_schema": TOOL}],
            "max_tokens": 99,
        },
    ),
}
CALLS = (ToolCall.of("get", {"key": "a"}, id="call_1"), ToolCall.of("get", {"key": "b"}, id="call_2"))
REPLY = replace(Reply.of("Well. ", *CALLS), usage=Usage(9, 9))


def streamed(api: str, reply: Reply = REPLY) -> list[Sent]:
    """What a gateway in this process sends when an engine says this."""
    path, body = ASKED[api]

    async def ask() -> bytes:
        async with gateway_of(speaking(reply)) as client:
            return (await client.post(path, {**body, "stream": True})).body

    return events_of(asyncio.run(ask()))


def raw(sent: Sequence[Sent]) -> str:
    """As bytes again, each event with its name where it has one."""
    names = [f"event: {one.name}\n" if one.name else "" for one in sent]
    values = [one.value if one.is_done else json.dumps(one.value) for one in sent]
    return "".join(f"{name}data: {value}\n\n" for name, value in zip(names, values, strict=True))


@dataclass(frozen=True, slots=True)
class Spoiling:
    """`row` is the omission; `breaks` whether the client of that API fails on it or reads something else."""

    api: str
    row: str
    spoil: Callable[[list[Sent]], list[Sent]]
    breaks: bool = True


def _each(change: Callable[[dict[str, Any]], None]) -> Callable[[list[Sent]], list[Sent]]:
    """Changes every event's value, in a copy."""

    def spoil(sent: list[Sent]) -> list[Sent]:
        changed = deepcopy(sent)
        for one in changed:
            if not one.is_done:
                change(one.value)
        return changed

    return spoil


def _without(*types: str) -> Callable[[list[Sent]], list[Sent]]:
    return lambda sent: [one for one in sent if one.is_done or one.value.get("type") not in types]


def _fragments(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for choice in chunk.get("choices", ()) for part in choice["delta"].get("tool_calls", ())]


def _head_again(chunk: dict[str, Any]) -> None:
    for part in _fragments(chunk):
        part["id"] = f"call_{part['index'] + 1}"
        part["type"] = "function"
        part["function"]["name"] = "get"


def _no_index(chunk: dict[str, Any]) -> None:
    for part in _fragments(chunk):
        del part["index"]


def _swapped(chunk: dict[str, Any]) -> None:
    for part in _fragments(chunk):
        part["index"] = 1 - part["index"]


def _gap(chunk: dict[str, Any]) -> None:
    for part in _fragments(chunk):
        part["index"] = 2 * part["index"] + 1


def _unfinished(chunk: dict[str, Any]) -> None:
    for choice in chunk.get("choices", ()):
        choice["finish_reason"] = None


def _other_id(chunk: dict[str, Any]) -> None:
    if chunk.get("usage"):
        chunk["id"] = "chatcmpl-other"


def _unnamed(sent: list[Sent]) -> list[Sent]:
    return [Sent("", one.value) for one in sent]


def _unnumbered(event: dict[str, Any]) -> None:
    del event["sequence_number"]


def _other_response(event: dict[str, Any]) -> None:
    if event["type"] == "response.completed":
        event["response"]["id"] = "resp_other"


def _other_item(event: dict[str, Any]) -> None:
    if event["type"] == "response.output_item.done":
        event["item"]["id"] = "item_other"


def _blocks_swapped(event: dict[str, Any]) -> None:
    if "index" in event:
        event["index"] = 2 - event["index"]


def _input_early(event: dict[str, Any]) -> None:
    if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
        event["content_block"]["input"] = {"key": "early"}


def _usage_untold(event: dict[str, Any]) -> None:
    if event["type"] == "message_delta":
        del event["usage"]


SPOILINGS = [
    Spoiling("chat", "a call's id, type and name stand in its first fragment and in no other", _each(_head_again)),
    Spoiling("chat", "a fragment has an index", _each(_no_index)),
    Spoiling("chat", "indices ascend from 0 without gaps, one call after the other", _each(_swapped)),
    Spoiling("chat", "indices ascend from 0 without gaps, one call after the other", _each(_gap)),
    Spoiling("chat", "the finish reason comes once, alone, and last", _each(_unfinished)),
    Spoiling("chat", "every chunk has the same id", _each(_other_id), breaks=False),
    Spoiling("chat", "the stream says that it is done", lambda sent: sent[:-1], breaks=False),
    Spoiling("chat", "usage comes last where it was asked for", lambda sent: [*sent[:-2], sent[-1]], breaks=False),
    Spoiling("responses", "every event is named", _unnamed, breaks=False),
    Spoiling("responses", "every event has a sequence number, and they ascend", _each(_unnumbered), breaks=False),
    Spoiling("responses", "response.created comes first", _without("response.created")),
    Spoiling("responses", "an item is added before anything is said of it", _without("response.output_item.added")),
    Spoiling("responses", "a part is added before its text", _without("response.content_part.added")),
    Spoiling(
        "responses",
        "arguments are said to be done",
        _without("response.function_call_arguments.done"),
        breaks=False,
    ),
    Spoiling("responses", "every item is said to be done", _without("response.output_item.done"), breaks=False),
    Spoiling("responses", "the response is said to be over, last", _without("response.completed")),
    Spoiling("responses", "the response keeps its id", _each(_other_response)),
    Spoiling("responses", "an item keeps its id", _each(_other_item)),
    Spoiling("messages", "every event is named", _unnamed),
    Spoiling("messages", "message_start comes first", _without("message_start")),
    Spoiling("messages", "blocks begin in the order of their indices", _each(_blocks_swapped)),
    Spoiling(
        "messages", "a block is open while anything is said of it, and one at a time", _without("content_block_start")
    ),
    Spoiling("messages", "a call's input begins empty", _each(_input_early), breaks=False),
    Spoiling("messages", "the tokens written are told at the end", _each(_usage_untold)),
    Spoiling("messages", "message_stop comes last", _without("message_stop"), breaks=False),
]
