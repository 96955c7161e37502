"""Decode an engine's answer in OpenAI's chat API into events. A whole answer is one large delta.

Tolerates what real servers do: no index or the same one for every call, no id or a new one in each piece, names in
pieces or repeated, arguments as an object, "stop" although calls were made, an error in the middle of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ferrule.core.event import Diagnostic, Event, FinishReason, ReasoningDelta, TextDelta, Usage
from ferrule.core.ids import IdMaker
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.extension import KEY, Extension
from ferrule.dialects.finish_reason import finish_of
from ferrule.dialects.incoming_calls import IncomingCalls
from ferrule.dialects.lenient_json import count, entries, json_text, mapping, message_of, text

_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.STOP,
}


# The fields of a chunk that is nothing but text. They are ignored, or empty until the end.
_CHUNK_FIELDS = frozenset(
    {"id", "object", "created", "model", "system_fingerprint", "service_tier", "choices", "usage"}
)
_CHOICE_FIELDS = frozenset({"index", "delta", "finish_reason", "logprobs"})
_DELTA_FIELDS = frozenset({"role", "content"})


class ReplyDecoder:
    """Call `feed` with each chunk, and `close` after the last (the engine sent [DONE] or disconnected)."""

    def __init__(self, tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker) -> None:
        self._out: list[Event] = []
        self._calls = IncomingCalls(tools, make_id, self._out.append)
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._last: int | None = None
        self._reason = ""
        self._usage: Usage | None = None
        self._has_refused = False
        self._has_failed = False

    def feed(self, chunk: dict[str, Any]) -> list[Event]:
        if plain_text := _plain_text(chunk):
            self._add_delta(TextDelta(plain_text))
            return self._take_events()
        if KEY in chunk:
            self._calls.add_extension(Extension.read(chunk))
        if chunk.get("error"):
            self._has_failed = True
            self._out.append(Diagnostic("engine_error", message_of(chunk["error"])))
        usage = mapping(chunk.get("usage"))
        if usage:
            cached = count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
            self._usage = Usage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")), cached)
        for choice in entries(chunk.get("choices")):
            # Only one choice is requested; another would be mixed into it.
            if count(choice.get("index")):
                continue
            if choice.get("message"):
                self._message(mapping(choice["message"]), is_whole=True)
            else:
                self._message(mapping(choice.get("delta")), is_whole=False)
            self._reason = text(choice.get("finish_reason")) or self._reason
        return self._take_events()

    def close(self) -> list[Event]:
        """End all calls. Without a finish reason the answer was cut off, and there is no `Finish`."""
        reason = _REASONS.get(self._reason)
        is_broken = not self._reason or self._has_failed
        self._calls.end_all(is_cut=is_broken or reason is FinishReason.LENGTH)
        if self._reason == "content_filter":
            self._out.append(Diagnostic("content_filter", "the engine's content filter stopped the answer"))
        if self._reason and reason is None:
            note = f"the engine ended with the unknown reason {self._reason[:60]!r}"
            self._out.append(Diagnostic("unknown_finish", note))
        if not is_broken:
            self._out.append(finish_of(reason or FinishReason.STOP, self._calls.complete_count, self._usage))
        elif not self._has_failed:
            self._out.append(Diagnostic("broken_off", "the stream ended without a finish reason"))
        return self._take_events()

    def _take_events(self) -> list[Event]:
        events = self._out.copy()
        self._out.clear()
        return events

    def _message(self, message: dict[str, Any], *, is_whole: bool) -> None:
        # Some servers send the reasoning under both names.
        thought = text(message.get("reasoning_content")) or text(message.get("reasoning"))
        if thought:
            self._add_delta(ReasoningDelta(thought))
        self._content(message.get("content"))
        if text(message.get("refusal")):
            if not self._has_refused:
                self._has_refused = True
                self._out.append(Diagnostic("refusal", "the model refused; its message is in the text"))
            self._add_delta(TextDelta(message["refusal"]))
        for call in entries(message.get("tool_calls")):
            self._call(call, is_whole)
        old = mapping(message.get("function_call"))
        if old:
            self._call({"index": -1, "function": old}, is_whole)

    def _add_delta(self, delta: TextDelta | ReasoningDelta) -> None:
        self._calls.finish_name()
        self._out.append(delta)

    def _content(self, content: object) -> None:
        if isinstance(content, str):
            if content:
                self._add_delta(TextDelta(content))
            return
        for part in entries(content):
            if part.get("type") == "thinking":
                inner = part.get("thinking")
                thought = (
                    inner if isinstance(inner, str) else "".join(text(piece.get("text")) for piece in entries(inner))
                )
                if thought:
                    self._add_delta(ReasoningDelta(thought))
            elif text(part.get("text")):
                self._add_delta(TextDelta(part["text"]))

    def _call(self, call: dict[str, Any], is_whole: bool) -> None:
        function = mapping(call.get("function"))
        id, name, index = text(call.get("id")), text(function.get("name")), call.get("index")
        slot = None if is_whole else self._slot(index if isinstance(index, int) else None, id, name)
        if slot is None:
            slot = self._open_next()
        if isinstance(index, int):
            self._by_index[index] = slot
        if id:
            self._by_id.setdefault(id, slot)
        self._last = slot
        self._calls.identify(slot, id)
        self._calls.name(slot, name)
        self._calls.arguments(slot, json_text(function.get("arguments")))

    def _slot(self, index: int | None, id: str, name: str) -> int | None:
        """Return the slot of the call that a piece belongs to; None if it starts a new call."""
        slot = self._last if index is None else self._by_index.get(index)
        if index is None and id in self._by_id:
            return self._by_id[id]
        if slot is None or not name:
            return slot
        known_id = self._calls.id_of(slot)
        is_other = bool(id and known_id and id != known_id)
        if index is None and is_other:
            return None
        # A repeated name starts a new call only if the call before it has complete arguments: some servers repeat the
        # name, others give every call the same index.
        is_new = (is_other or (index is None and not id)) and self._calls.is_whole(slot)
        return None if is_new else slot

    def _open_next(self) -> int:
        """Open a new call. End the one before it if its arguments are complete; otherwise more of it may follow."""
        if self._last is not None and self._calls.is_whole(self._last):
            self._calls.end(self._last)
        return self._calls.open()


def _plain_text(chunk: dict[str, Any]) -> str:
    """The text of a chunk that is nothing but text, as nearly all are; "" if there is anything else in it."""
    choices: Any = chunk.get("choices")
    if choices.__class__ is not list or len(choices) != 1 or chunk.get("usage") or not chunk.keys() <= _CHUNK_FIELDS:
        return ""
    choice: Any = choices[0]
    if choice.__class__ is not dict or choice.get("finish_reason") or choice.get("index"):
        return ""
    delta: Any = choice.get("delta")
    if delta.__class__ is not dict or not choice.keys() <= _CHOICE_FIELDS or not delta.keys() <= _DELTA_FIELDS:
        return ""
    content: Any = delta.get("content")
    return content if content.__class__ is str else ""


def events_of(body: dict[str, Any], tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker) -> list[Event]:
    """Return the events of an answer that was not streamed."""
    decoder = ReplyDecoder(tools, make_id=make_id)
    return [*decoder.feed(body), *decoder.close()]
