"""Encode events as the chunks of a streamed chat completion.

The order is what the OpenAI client's accumulator needs: indices ascend from 0, an id and a name come once, one call
ends before the next starts, and the finish reason has a chunk of its own. The server sends `[DONE]`.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
)
from ferrule.dialects.extension import Extension
from ferrule.dialects.openai_chat.usage import usage_body
from ferrule.dialects.sequence import EventSequence


class ChunkEncoder:
    """`uses_functions`: the client uses the older API, which has only one call; further calls are left out.

    `is_live`: arguments are sent as they arrive, and not only with the complete call.
    """

    def __init__(
        self,
        *,
        id: str,
        model: str,
        created: int,
        include_usage: bool = False,
        uses_functions: bool = False,
        is_live: bool = False,
    ) -> None:
        self._head = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._include_usage = include_usage
        self._uses_functions = uses_functions
        self._sequence = EventSequence(is_live=is_live)
        self._has_begun = False
        self._ids: list[str] = []

    def feed(self, event: Event) -> list[dict[str, Any]]:
        return [chunk for ordered in self._sequence.feed(event) for chunk in self._chunks(ordered)]

    @property
    def is_in_text(self) -> bool:
        """Whether a text would be one chunk (`text_chunk`): the answer has begun, and no call is open."""
        return self._has_begun and not self._sequence.has_open_call

    def text_chunk(self, text: str) -> dict[str, Any]:
        """The chunk of a text, after the first chunk."""
        return self._chunk({"content": text})

    def close(self) -> list[dict[str, Any]]:
        """End an answer that was cut off: without a finish reason, so that it does not look finished."""
        return [chunk for ordered in self._sequence.close() for chunk in self._chunks(ordered)]

    def _chunks(self, event: Event) -> list[dict[str, Any]]:
        match event:
            case TextDelta(text):
                return [self.text_chunk(text)] if text else []
            case ReasoningDelta(text):
                return [self._chunk({"reasoning_content": text})] if text else []
            case CallStart(index, id, name):
                self._ids.append(id)
                return self._call(index, {"name": name, "arguments": ""}, {"id": id, "type": "function"})
            case ArgumentsDelta(index, json):
                return self._call(index, {"arguments": json})
            case CallEnd(index, complete, receipt) if complete and receipt:
                extension = Extension({self._ids[index]: receipt}).as_field()
                return [{**self._chunk({}), **extension}]
            case Finish():
                return self._last_chunks(event)
            case _:
                return []

    def _call(self, index: int, function: dict[str, Any], head: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        if not self._uses_functions:
            return [self._chunk({"tool_calls": [{"index": index, **(head or {}), "function": function}]})]
        return [self._chunk({"function_call": function})] if index == 0 else []

    def _last_chunks(self, finish: Finish) -> list[dict[str, Any]]:
        chunks = [] if self._has_begun else [self._chunk({"content": ""})]
        reason = reason_word(finish.reason, self._uses_functions)
        chunks.append({**self._chunk({}, reason), **self._sequence.extension.as_field()})
        if self._include_usage and finish.usage:
            chunks.append({**self._head, "choices": [], "usage": usage_body(finish.usage)})
        return chunks

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        if not self._has_begun:
            self._has_begun = True
            delta = {"role": "assistant", **delta}
        chunk = {**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        return {**chunk, "usage": None} if self._include_usage else chunk


def reason_word(reason: FinishReason, uses_functions: bool) -> str:
    return "function_call" if uses_functions and reason is FinishReason.TOOL_CALLS else reason.value
