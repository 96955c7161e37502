"""JSON objects out of a stream's messages: what every engine's stream is made of, whichever way it is framed."""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.json_wire import read_json
from ferrule.dialects.sse import SseDecoder, SseMessage
from ferrule.errors import EngineError

_DONE = "[DONE]"
_SHOWN = 80


def object_of(data: str) -> dict[str, Any]:
    """The object that a message is; `EngineError` where it is something else."""
    try:
        value = read_json(data)
    except (ValueError, RecursionError) as damage:
        raise _refusal(data) from damage
    if not isinstance(value, dict):
        raise _refusal(data)
    return cast("dict[str, Any]", value)


class SseObjects:
    """The JSON objects in a stream of server-sent events; OpenAI's last word is not one and is passed over."""

    def __init__(self) -> None:
        self._decoder = SseDecoder()

    def feed(self, data: bytes, /) -> list[dict[str, Any]]:
        return _objects(self._decoder.feed(data))

    def close(self) -> list[dict[str, Any]]:
        return _objects(self._decoder.close())


def _objects(messages: list[SseMessage]) -> list[dict[str, Any]]:
    return [object_of(message.data) for message in messages if message.data.strip() != _DONE]


def _refusal(data: str) -> EngineError:
    return EngineError(
        f"a message of the stream is not a JSON object: {data[:_SHOWN]!r}",
        code="bad_stream",
        hint="See whether the address is that of the engine, and whether something between cuts its answers off.",
    )
