"""Streams of our own gateway, and ways to damage them: each omits or repeats one thing that a client depends on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from ferrule import Reply, ToolCall
from ferrule.core.event import Usage
from lab.gateway_recorder import ServerSentEvent, events_of
from server.client import gateway_of, scripted_engine

TOOL = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
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


def stream_events(api: str, reply: Reply = REPLY) -> list[ServerSentEvent]:
    """The events that a gateway in this process sends for this reply of the engine."""
    path, body = REQUESTS[api]

    async def ask() -> bytes:
        async with gateway_of(scripted_engine(reply)) as client:
            return (await client.post(path, {**body, "stream": True})).body

    return events_of(asyncio.run(ask()))


def encode_events(events: Sequence[ServerSentEvent]) -> str:
    """The events as an SSE text again, each with its name if it has one."""
    names = [f"event: {one.name}\n" if one.name else "" for one in events]
    values = [one.value if one.is_done else json.dumps(one.value) for one in events]
    return "".join(f"{name}data: {value}\n\n" for name, value in zip(names, values, strict=True))


@dataclass(frozen=True, slots=True)
class Damage:
    """`row` is the omission; `breaks`: the client of that API fails on it or reads something else."""

    api: str
    row: str
    apply: Callable[[list[ServerSentEvent]], list[ServerSentEvent]]
    breaks: bool = True


def _each(change: Callable[[dict[str, Any]], None]) -> Callable[[list[ServerSentEvent]], list[ServerSentEvent]]:
    """Changes every event's value, in a copy."""

    def apply(events: list[ServerSentEvent]) -> list[ServerSentEvent]:
        result = deepcopy(events)
        for one in result:
            if not one.is_done:
                change(one.value)
        return result

    return apply


def _without(*types: str) -> Callable[[list[ServerSentEvent]], list[ServerSentEvent]]:
    return lambda events: [one for one in events if one.is_done or one.value.get("type") not in types]


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


def _swap(chunk: dict[str, Any]) -> None:
    for part in _fragments(chunk):
        part["index"] = 1 - part["index"]


def _gap(chunk: dict[str, Any]) -> None:
    for part in _fragments(chunk):
        part["index"] = 2 * part["index"] + 1


def _drop_finish(chunk: dict[str, Any]) -> None:
    for choice in chunk.get("choices", ()):
        choice["finish_reason"] = None


def _other_id(chunk: dict[str, Any]) -> None:
    if chunk.get("usage"):
        chunk["id"] = "chatcmpl-other"


def _drop_names(events: list[ServerSentEvent]) -> list[ServerSentEvent]:
    return [ServerSentEvent("", one.value) for one in events]


def _drop_sequence_numbers(event: dict[str, Any]) -> None:
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


DAMAGES = [
    Damage("chat", "a call's id, type and name are in its first fragment and in no other", _each(_head_again)),
    Damage("chat", "a fragment has an index", _each(_no_index)),
    Damage("chat", "indices ascend from 0 without gaps, one call after the other", _each(_swap)),
    Damage("chat", "indices ascend from 0 without gaps, one call after the other", _each(_gap)),
    Damage("chat", "the finish reason comes once, alone, and last", _each(_drop_finish)),
    Damage("chat", "every chunk has the same id", _each(_other_id), breaks=False),
    Damage("chat", "the stream ends with [DONE]", lambda events: events[:-1], breaks=False),
    Damage("chat", "usage comes last if it was requested", lambda events: [*events[:-2], events[-1]], breaks=False),
    Damage("responses", "every event is named", _drop_names, breaks=False),
    Damage(
        "responses", "every event has a sequence number, and they ascend", _each(_drop_sequence_numbers), breaks=False
    ),
    Damage("responses", "response.created comes first", _without("response.created")),
    Damage("responses", "an item is added before other events refer to it", _without("response.output_item.added")),
    Damage("responses", "a part is added before its text", _without("response.content_part.added")),
    Damage(
        "responses",
        "arguments end with a done event",
        _without("response.function_call_arguments.done"),
        breaks=False,
    ),
    Damage("responses", "every item ends with a done event", _without("response.output_item.done"), breaks=False),
    Damage("responses", "the last event ends the response", _without("response.completed")),
    Damage("responses", "the response keeps its id", _each(_other_response)),
    Damage("responses", "an item keeps its id", _each(_other_item)),
    Damage("messages", "every event is named", _drop_names),
    Damage("messages", "message_start comes first", _without("message_start")),
    Damage("messages", "blocks begin in the order of their indices", _each(_blocks_swapped)),
    Damage("messages", "a block is open while events refer to it, and one at a time", _without("content_block_start")),
    Damage("messages", "a call's input begins empty", _each(_input_early), breaks=False),
    Damage("messages", "the output tokens are reported at the end", _each(_usage_untold)),
    Damage("messages", "message_stop comes last", _without("message_stop"), breaks=False),
]
