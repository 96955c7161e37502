"""Encode events as the named events of a streamed message. Each event's name is its `type`; the client drops others.

Blocks are numbered from 0 in the order of the reply's parts.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolSearch,
    Usage,
)
from ferrule.core.json_text import dumps
from ferrule.dialects.anthropic.response_body import stop_fields, usage_body
from ferrule.dialects.anthropic.search_blocks import result_block, use_block
from ferrule.dialects.extension import Extension
from ferrule.dialects.sequence import EventSequence

_TEXT: dict[str, Any] = {"type": "text", "text": ""}
# The client's type requires a signature; there is none.
_THINKING: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}


class EventEncoder:
    """`prompt_tokens` is sent at the start, if it is known, and again at the end.

    `is_live`: arguments are sent as they arrive, and not only with the complete call.
    """

    def __init__(self, *, id: str, model: str, prompt_tokens: int = 0, is_live: bool = False) -> None:
        message: dict[str, Any] = {"id": id, "type": "message", "role": "assistant", "model": model, "content": []}
        ending = {"stop_reason": None, "stop_sequence": None, "usage": usage_body(Usage(prompt_tokens))}
        self._message: dict[str, Any] | None = {**message, **ending}
        self._sequence = EventSequence(is_live=is_live)
        self._open = ""
        self._index = -1
        self._ids: list[str] = []

    def feed(self, event: Event) -> list[dict[str, Any]]:
        encoded = [one for ordered in self._sequence.feed(event) for one in self._encode(ordered)]
        return self._message_start() + encoded if encoded else []

    def close(self) -> list[dict[str, Any]]:
        """End an answer that was cut off: without `message_stop`, so that it does not look finished.

        A call that was begun stays open, as when an engine breaks off: Claude Code runs every call whose block ended.
        """
        if self._open == "tool_use":
            return []
        rest = [encoded for ordered in self._sequence.close() for encoded in self._encode(ordered)]
        return rest + self._stop_block()

    def _message_start(self) -> list[dict[str, Any]]:
        message, self._message = self._message, None
        return [{"type": "message_start", "message": message}] if message else []

    def _encode(self, event: Event) -> list[dict[str, Any]]:
        match event:
            case TextDelta(text):
                return self._add_delta(_TEXT, {"type": "text_delta", "text": text}) if text else []
            case ReasoningDelta():
                return self._reasoning(event)
            case CallStart(_, id, name):
                self._ids.append(id)
                return self._start_block({"type": "tool_use", "id": id, "name": name, "input": {}})
            case ArgumentsDelta(_, json):
                return [self._delta({"type": "input_json_delta", "partial_json": json})]
            case CallEnd(index, complete, receipt):
                extension = Extension({self._ids[index]: receipt}) if complete and receipt else Extension()
                return self._stop_block(extension)
            case ToolSearch():
                return self._search(event) if event.declared else []
            case Finish():
                return [*self._stop_block(), *self._finish(event)]
            case _:
                return []

    def _add_delta(self, block: dict[str, Any], delta: dict[str, Any]) -> list[dict[str, Any]]:
        start = [] if self._open == block["type"] else self._start_block(block)
        return [*start, self._delta(delta)]

    def _reasoning(self, delta: ReasoningDelta) -> list[dict[str, Any]]:
        encoded: list[dict[str, Any]] = []
        if delta.text:
            encoded = self._add_delta(_THINKING, {"type": "thinking_delta", "thinking": delta.text})
        if delta.signature:
            # A signature ends its block: what follows is another one.
            encoded += self._add_delta(_THINKING, {"type": "signature_delta", "signature": delta.signature})
            encoded += self._stop_block()
        if delta.encrypted:
            encoded += self._start_block({"type": "redacted_thinking", "data": delta.encrypted})
            encoded += self._stop_block()
        return encoded

    def _search(self, search: ToolSearch) -> list[dict[str, Any]]:
        use = use_block(search)
        encoded = self._start_block({**use, "input": {}})
        encoded.append(self._delta({"type": "input_json_delta", "partial_json": dumps(use["input"])}))
        encoded += self._stop_block()
        return [*encoded, *self._start_block(result_block(search)), *self._stop_block()]

    def _start_block(self, block: dict[str, Any]) -> list[dict[str, Any]]:
        stop = self._stop_block()
        self._open = block["type"]
        self._index += 1
        return [*stop, {"type": "content_block_start", "index": self._index, "content_block": dict(block)}]

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _stop_block(self, extension: Extension | None = None) -> list[dict[str, Any]]:
        if not self._open:
            return []
        self._open = ""
        return [{"type": "content_block_stop", "index": self._index, **(extension.as_field() if extension else {})}]

    def _finish(self, finish: Finish) -> list[dict[str, Any]]:
        delta = stop_fields(finish.reason, finish.stop)
        usage = usage_body(finish.usage or Usage())
        extension = self._sequence.extension.as_field()
        return [{"type": "message_delta", "delta": delta, "usage": usage, **extension}, {"type": "message_stop"}]
