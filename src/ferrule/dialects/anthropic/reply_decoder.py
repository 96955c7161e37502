"""Decode an engine's answer in Anthropic's API into events. A whole answer is read block by block in the same way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.event import Diagnostic, Event, FinishReason, ReasoningDelta, TextDelta, Usage
from ferrule.core.ids import IdMaker
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import DeclaredSearch
from ferrule.dialects.anthropic.published_tools import TOOL_SEARCH
from ferrule.dialects.anthropic.search_blocks import search_of
from ferrule.dialects.extension import Extension
from ferrule.dialects.finish_reason import finish_of
from ferrule.dialects.incoming_calls import IncomingCalls
from ferrule.dialects.lenient_json import count, entries, json_text, mapping, message_of, text

_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.STOP,
}
_PROMPT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(slots=True)
class _OpenSearch:
    id: str
    input: str
    """The arguments of a block that is not streamed."""
    pieces: list[str] = field(default_factory=list[str])


class ReplyDecoder:
    """Call `feed` with the data of each named event, and `close` after the last."""

    def __init__(
        self, tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker, search: DeclaredSearch | None = None
    ) -> None:
        """`search` is the tool search that the request declares, if the engine carries it out."""
        self._search = search
        self._searches: dict[int, _OpenSearch] = {}
        self._out: list[Event] = []
        self._calls = IncomingCalls(tools, make_id, self._out.append)
        self._slots: dict[int, int] = {}
        self._inputs: dict[int, Any] = {}
        self._reason = ""
        self._stop_sequence = ""
        self._counts: dict[str, int] = {}
        self._has_failed = False

    def feed(self, event: dict[str, Any]) -> list[Event]:
        self._calls.add_extension(Extension.read(event))
        index = count(event.get("index"))
        match event.get("type"):
            case "message_start":
                self._count(mapping(event.get("message")).get("usage"))
            case "content_block_start":
                self._start(index, mapping(event.get("content_block")))
            case "content_block_delta":
                self._delta(index, mapping(event.get("delta")))
            case "content_block_stop":
                self._stop(index)
            case "message_delta":
                self._read_end(mapping(event.get("delta")))
                self._count(event.get("usage"))
            case "message":
                self._read_message(event)
            case "error":
                self._has_failed = True
                self._out.append(Diagnostic("engine_error", message_of(event.get("error"))))
            case _:
                # A ping, the end of the message, or an event type that is newer than this code.
                pass
        return self._take_events()

    def close(self) -> list[Event]:
        """End all calls. Without a stop reason the answer was cut off, and there is no `Finish`."""
        reason = _REASONS.get(self._reason)
        is_broken = not self._reason or self._has_failed
        self._calls.end_all(is_cut=is_broken or reason is FinishReason.LENGTH)
        if self._reason == "refusal":
            self._out.append(Diagnostic("refusal", "the model refused; its message, if any, is in the text"))
        if self._reason and reason is None:
            note = f"the engine ended with the unknown reason {self._reason[:60]!r}"
            self._out.append(Diagnostic("unknown_finish", note))
        if not is_broken:
            finish = finish_of(reason or FinishReason.STOP, self._calls.complete_count, self._usage())
            self._out.append(replace(finish, stop=self._stop_sequence))
        elif not self._has_failed:
            self._out.append(Diagnostic("broken_off", "the stream ended without a stop reason"))
        return self._take_events()

    def _take_events(self) -> list[Event]:
        events = self._out.copy()
        self._out.clear()
        return events

    def _count(self, usage: object) -> None:
        """Update the token counts. They are cumulative: a later count replaces an earlier one; null is ignored."""
        self._counts.update({name: value for name, value in mapping(usage).items() if isinstance(value, int)})

    def _usage(self) -> Usage | None:
        if not self._counts:
            return None
        prompt = sum(self._counts.get(name, 0) for name in _PROMPT_COUNTS)
        return Usage(prompt, self._counts.get("output_tokens", 0), self._counts.get("cache_read_input_tokens", 0))

    def _read_message(self, message: dict[str, Any]) -> None:
        for index, block in enumerate(entries(message.get("content"))):
            self._start(index, block)
            if index in self._slots:
                self._calls.arguments(self._slots[index], json_text(self._inputs.pop(index)))
            self._stop(index)
        self._read_end(message)
        self._count(message.get("usage"))

    def _read_end(self, end: dict[str, Any]) -> None:
        self._reason = text(end.get("stop_reason")) or self._reason
        if self._reason == "stop_sequence":
            self._stop_sequence = text(end.get("stop_sequence"))

    def _start(self, index: int, block: dict[str, Any]) -> None:
        match block.get("type"):
            case "text":
                self._add_delta(TextDelta(text(block.get("text"))))
            case "thinking":
                self._add_delta(ReasoningDelta(text(block.get("thinking")), text(block.get("signature"))))
            case "tool_use":
                slot = self._slots[index] = self._calls.open()
                self._inputs[index] = block.get("input")
                self._calls.identify(slot, text(block.get("id")))
                self._calls.name(slot, text(block.get("name")))
                self._calls.finish_name()
            case "server_tool_use" if self._search is not None and block.get("name") in TOOL_SEARCH:
                self._searches[index] = _OpenSearch(text(block.get("id")), json_text(block.get("input") or {}))
            case "tool_search_tool_result" if self._search is not None:
                self._end_search(self._search, block)
            case "redacted_thinking":
                self._add_delta(ReasoningDelta("", encrypted=text(block.get("data"))))
            case kind:
                note = f"a block of the unknown type {text(kind)[:60]!r} was left out"
                self._out.append(Diagnostic("unknown_block", note))

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        match delta.get("type"):
            case "text_delta":
                self._add_delta(TextDelta(text(delta.get("text"))))
            case "thinking_delta":
                self._add_delta(ReasoningDelta(text(delta.get("thinking"))))
            case "signature_delta":
                self._add_delta(ReasoningDelta("", text(delta.get("signature"))))
            case "input_json_delta" if index in self._searches:
                self._searches[index].pieces.append(text(delta.get("partial_json")))
            case "input_json_delta" if index in self._slots:
                self._inputs.pop(index, None)
                self._calls.arguments(self._slots[index], text(delta.get("partial_json")))
            case _:
                # A citation is not part of the reply.
                pass

    def _stop(self, index: int) -> None:
        """End a call whose arguments are complete. Only the end of the answer shows whether others were cut off."""
        slot = self._slots.get(index)
        if slot is None:
            return
        whole = self._inputs.pop(index, None)
        if whole and not self._calls.is_whole(slot):
            # There were no deltas: this engine sends all arguments with the start of the block.
            self._calls.arguments(slot, json_text(whole))
        if self._calls.is_whole(slot):
            self._calls.end(slot)

    def _end_search(self, declared: DeclaredSearch, block: dict[str, Any]) -> None:
        id = text(block.get("tool_use_id"))
        call = next((one for one in self._searches.values() if one.id == id), None)
        if call is None:
            return
        arguments = "".join(call.pieces) or call.input
        self._out.append(search_of(declared, id, arguments, mapping(block.get("content"))))

    def _add_delta(self, delta: TextDelta | ReasoningDelta) -> None:
        if delta.text or (isinstance(delta, ReasoningDelta) and (delta.signature or delta.encrypted)):
            self._out.append(delta)


def events_of(body: dict[str, Any], tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker) -> list[Event]:
    """Return the events of an answer that was not streamed."""
    decoder = ReplyDecoder(tools, make_id=make_id)
    return [*decoder.feed(body), *decoder.close()]
