"""Decode the messages of an engine's stream as JSON objects, whatever the framing."""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.json_text import read_json
from ferrule.dialects.sse import SseDecoder, SseMessage
from ferrule.errors import EngineError

_DONE = "[DONE]"
_SHOWN = 80


def object_of(data: str) -> dict[str, Any]:
    """Parse a message as a JSON object. Raises `EngineError` if it is anything else."""
    try:
        value = read_json(data)
    except (ValueError, RecursionError) as damage:
        raise _refusal(data) from damage
    if not isinstance(value, dict):
        raise _refusal(data)
    return cast("dict[str, Any]", value)


class SseObjects:
    """Decodes the JSON objects of a stream of server-sent events. Skips OpenAI's final `[DONE]`."""

    def __init__(self) -> None:
        self._decoder = SseDecoder()

    def feed(self, data: bytes, /) -> list[dict[str, Any]]:
        text = self._decoder.only_data(data)
        if text is not None:
            return [object_of(text)] if text.strip() != _DONE else []
        return _objects(self._decoder.feed(data))

    def close(self) -> list[dict[str, Any]]:
        return _objects(self._decoder.close())


def _objects(messages: list[SseMessage]) -> list[dict[str, Any]]:
    return [object_of(message.data) for message in messages if message.data.strip() != _DONE]


def _refusal(data: str) -> EngineError:
    return EngineError(
        f"a message of the stream is not a JSON object: {data[:_SHOWN]!r}",
        code="bad_stream",
        hint="Check that the address is the engine's, and that no proxy cuts its answers off.",
    )
