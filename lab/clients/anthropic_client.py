"""Anthropic's client: every event is checked against its type before the client reads it."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from lab.clients.type_check import check
from lab.clients.wire import ADDRESS, Wire


def _client(wire: Wire) -> Any:
    client_class: Any = importlib.import_module("anthropic").Anthropic
    return client_class(api_key="none", base_url=ADDRESS, http_client=wire.client(), max_retries=0)


def message_stream(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    check("anthropic.types", "RawMessageStreamEvent", [event for event in events if event["type"] != "error"])
    wire = Wire(events=events, named=True)
    with _client(wire).messages.stream(model="m", max_tokens=9, messages=[]) as stream:
        for _ in stream:
            pass
        return _message(stream.get_final_message())


def message_body(body: dict[str, Any]) -> Mapping[str, Any]:
    check("anthropic.types", "Message", [body])
    return _message(_client(Wire(body=body)).messages.create(model="m", max_tokens=9, messages=[]))


def _message(message: Any) -> Mapping[str, Any]:
    calls = [block for block in message.content if block.type == "tool_use"]
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "calls": [[call.id, call.name, call.input] for call in calls],
        "finish": message.stop_reason,
        "usage": [message.usage.input_tokens, message.usage.output_tokens],
    }


def sent_message(arguments: dict[str, Any]) -> Mapping[str, Any]:
    """The request body that the client sends for these arguments."""
    message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    ending = {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
    wire = Wire(body={**message, **ending})
    _client(wire).messages.create(**arguments)
    return {"sent": wire.sent}
