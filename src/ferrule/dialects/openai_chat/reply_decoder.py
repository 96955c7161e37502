"""An engine's answer in OpenAI's chat spelling, as events. A whole answer is one large delta.

Tolerates what servers were seen to do: no index or the same one for every call, no id or a new one in each piece, names
in pieces or repeated, arguments as an object, "stop" where calls were made, an error in the middle of a stream.
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


class ReplyDecoder:
    """`feed` takes each chunk, `close` is called when there are no more (the engine said [DONE] or hung up)."""

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
        if KEY in chunk:
            self._calls.tell(Extension.read(chunk))
        if chunk.get("error"):
            self._has_failed = True
            self._out.append(Diagnostic("engine_error", message_of(chunk["error"])))
        usage = mapping(chunk.get("usage"))
        if usage:
            self._usage = Usage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")))
        for choice in entries(chunk.get("choices")):
            # One answer was asked for; another would be mixed into it.
            if count(choice.get("index")):
                continue
            if choice.get("message"):
                self._message(mapping(choice["message"]), is_whole=True)
            else:
                self._message(mapping(choice.get("delta")), is_whole=False)
            self._reason = text(choice.get("finish_reason")) or self._reason
        return self._taken()

    def close(self) -> list[Event]:
        """Ends what is open. Without a finish reason the answer broke off, and no `Finish` is made up for it."""
        reason = _REASONS.get(self._reason)
        is_broken = not self._reason or self._has_failed
        self._calls.end_all(is_cut=is_broken or reason is FinishReason.LENGTH)
        if self._reason == "content_filter":
            self._out.append(Diagnostic("content_filter", "the engine stopped the answer because of what was in it"))
        if self._reason and reason is None:
            note = f"the engine ended with the reason {self._reason[:60]!r}, which is not known"
            self._out.append(Diagnostic("unknown_finish", note))
        if not is_broken:
            self._out.append(finish_of(reason or FinishReason.STOP, self._calls.complete, self._usage))
        elif not self._has_failed:
            self._out.append(Diagnostic("broken_off", "the stream ended without a finish reason"))
        return self._taken()

    def _taken(self) -> list[Event]:
        taken = self._out.copy()
        self._out.clear()
        return taken

    def _message(self, message: dict[str, Any], *, is_whole: bool) -> None:
        # Some servers send the reasoning under both names.
        thought = text(message.get("reasoning_content")) or text(message.get("reasoning"))
        if thought:
            self._say(ReasoningDelta(thought))
        self._content(message.get("content"))
        if text(message.get("refusal")):
            if not self._has_refused:
                self._has_refused = True
                self._out.append(Diagnostic("refusal", "the model refused; its words are in the text"))
            self._say(TextDelta(message["refusal"]))
        for call in entries(message.get("tool_calls")):
            self._call(call, is_whole)
        old = mapping(message.get("function_call"))
        if old:
            self._call({"index": -1, "function": old}, is_whole)

    def _say(self, delta: TextDelta | ReasoningDelta) -> None:
        self._calls.settle()
        self._out.append(delta)

    def _content(self, content: object) -> None:
        if isinstance(content, str):
            if content:
                self._say(TextDelta(content))
            return
        for part in entries(content):
            if part.get("type") == "thinking":
                inner = part.get("thinking")
                thought = (
                    inner if isinstance(inner, str) else "".join(text(piece.get("text")) for piece in entries(inner))
                )
                if thought:
                    self._say(ReasoningDelta(thought))
            elif text(part.get("text")):
                self._say(TextDelta(part["text"]))

    def _call(self, call: dict[str, Any], is_whole: bool) -> None:
        function = mapping(call.get("function"))
        id, name, index = text(call.get("id")), text(function.get("name")), call.get("index")
        slot = None if is_whole else self._slot(index if isinstance(index, int) else None, id, name)
        if slot is None:
            slot = self._opened()
        if isinstance(index, int):
            self._by_index[index] = slot
        if id:
            self._by_id.setdefault(id, slot)
        self._last = slot
        self._calls.identify(slot, id)
        self._calls.name(slot, name)
        self._calls.arguments(slot, json_text(function.get("arguments")))

    def _slot(self, index: int | None, id: str, name: str) -> int | None:
        """The call that a piece belongs to; None when it begins a new one."""
        slot = self._last if index is None else self._by_index.get(index)
        if index is None and id in self._by_id:
            return self._by_id[id]
        if slot is None or not name:
            return slot
        known = self._calls.id_of(slot)
        is_other = bool(id and known and id != known)
        if index is None and is_other:
            return None
        # A name again is a new call only when the call before it has all its arguments: some servers repeat the name,
        # others give every call the same index.
        is_new = (is_other or (index is None and not id)) and self._calls.is_whole(slot)
        return None if is_new else slot

    def _opened(self) -> int:
        """A new call. The one before it is over if it has all its arguments; if not, more of it may still come."""
        if self._last is not None and self._calls.is_whole(self._last):
            self._calls.end(self._last)
        return self._calls.open()


def events_of(body: dict[str, Any], tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker) -> list[Event]:
    """The events of an answer that was not streamed."""
    decoder = ReplyDecoder(tools, make_id=make_id)
    return [*decoder.feed(body), *decoder.close()]
