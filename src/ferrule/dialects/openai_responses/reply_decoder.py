"""Decode an engine's answer in the Responses API into events. A whole response is read item by item.

Tolerates servers that leave events out: content that was not streamed is taken from the item's last event or from the
whole response.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ferrule.core.event import Diagnostic, Event, FinishReason, ReasoningDelta, TextDelta, Usage
from ferrule.core.ids import IdMaker
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import DeclaredSearch
from ferrule.dialects.extension import Extension
from ferrule.dialects.finish_reason import finish_of
from ferrule.dialects.incoming_calls import IncomingCalls
from ferrule.dialects.lenient_json import count, entries, json_text, mapping, message_of, text
from ferrule.dialects.openai_responses.declared_tools import SearchReader

_TEXT_EVENTS = {"response.output_text.delta", "response.refusal.delta"}
_THOUGHT_EVENTS = {"response.reasoning_text.delta", "response.reasoning_summary_text.delta"}
_LAST_EVENTS = {"response.completed", "response.incomplete", "response.failed"}


class ReplyDecoder:
    """Call `feed` with the data of each event, and `close` after the last."""

    def __init__(
        self, tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker, search: DeclaredSearch | None = None
    ) -> None:
        """`search` is the tool search that the request declares, if the engine carries it out."""
        self._search = SearchReader(search)
        self._out: list[Event] = []
        self._calls = IncomingCalls(tools, make_id, self._out.append)
        self._slots: dict[int, int] = {}
        self._index_by_id: dict[str, int] = {}
        self._has_text: set[int] = set()
        self._has_refused = False
        self._has_failed = False
        self._reason: FinishReason | None = None
        self._usage: Usage | None = None

    def feed(self, event: dict[str, Any]) -> list[Event]:
        self._calls.add_extension(Extension.read(event))
        kind, index = text(event.get("type")), self._item_index(event)
        if kind in _TEXT_EVENTS or kind in _THOUGHT_EVENTS:
            self._add_text(index, kind, text(event.get("delta")))
        elif kind == "response.output_item.added":
            self._begin_call(index, mapping(event.get("item")))
        elif kind == "response.function_call_arguments.delta" and index in self._slots:
            self._has_text.add(index)
            self._calls.arguments(self._slots[index], text(event.get("delta")))
        elif kind == "response.output_item.done":
            self._finish_item(index, mapping(event.get("item")))
        elif kind in _LAST_EVENTS:
            response = mapping(event.get("response"))
            self._calls.add_extension(Extension.read(response))
            self._response(response)
        elif event.get("object") == "response":
            self._response(event)
        elif kind == "error" or event.get("error"):
            self._fail(event.get("error") or event)
        return self._take_events()

    def close(self) -> list[Event]:
        """End all calls. Without a last event the answer was cut off, and there is no `Finish`."""
        is_broken = self._reason is None or self._has_failed
        self._calls.end_all(is_cut=is_broken or self._reason is FinishReason.LENGTH)
        if self._reason is not None and not self._has_failed:
            self._out.append(finish_of(self._reason, self._calls.complete_count, self._usage))
        elif not self._has_failed:
            self._out.append(Diagnostic("broken_off", "the stream ended before the response did"))
        return self._take_events()

    def _item_index(self, event: dict[str, Any]) -> int:
        """Return the index of the item that an event is about. llama-server sends ids but no indices."""
        output_index = event.get("output_index")
        item_id = text(event.get("item_id")) or text(mapping(event.get("item")).get("id"))
        if isinstance(output_index, int) or not item_id:
            return count(output_index)
        return self._index_by_id.setdefault(item_id, len(self._index_by_id))

    def _take_events(self) -> list[Event]:
        events = self._out.copy()
        self._out.clear()
        return events

    def _fail(self, error: object) -> None:
        self._has_failed = True
        self._out.append(Diagnostic("engine_error", message_of(error)))

    def _response(self, response: dict[str, Any]) -> None:
        for index, item in enumerate(entries(response.get("output"))):
            self._finish_item(self._index_by_id.get(text(item.get("id")), index), item)
        usage = mapping(response.get("usage"))
        if usage:
            cached = count(mapping(usage.get("input_tokens_details")).get("cached_tokens"))
            self._usage = Usage(count(usage.get("input_tokens")), count(usage.get("output_tokens")), cached)
        why = text(mapping(response.get("incomplete_details")).get("reason"))
        match response.get("status"):
            case "failed" | "cancelled":
                self._fail(response.get("error"))
            case "incomplete" if why == "content_filter":
                self._reason = FinishReason.STOP
                note = "the engine's content filter stopped the answer"
                self._out.append(Diagnostic("content_filter", note))
            case "incomplete":
                self._reason = FinishReason.LENGTH
            case _:
                self._reason = FinishReason.STOP

    def _add_text(self, index: int, kind: str, delta: str) -> None:
        if not delta:
            return
        self._has_text.add(index)
        self._calls.finish_name()
        if kind in _THOUGHT_EVENTS:
            self._out.append(ReasoningDelta(delta))
            return
        if kind == "response.refusal.delta" and not self._has_refused:
            self._has_refused = True
            self._out.append(Diagnostic("refusal", "the model refused; its message is in the text"))
        self._out.append(TextDelta(delta))

    def _begin_call(self, index: int, item: dict[str, Any]) -> None:
        if item.get("type") != "function_call" or index in self._slots:
            return
        slot = self._slots[index] = self._calls.open()
        self._calls.identify(slot, text(item.get("call_id")) or text(item.get("id")))
        self._calls.name(slot, self._search.name_of(item))
        self._calls.finish_name()

    def _finish_item(self, index: int, item: dict[str, Any]) -> None:
        """End an item: emit the content that was not streamed."""
        match item.get("type"):
            case "function_call":
                self._begin_call(index, item)
                slot = self._slots[index]
                if index not in self._has_text:
                    self._has_text.add(index)
                    self._calls.arguments(slot, json_text(item.get("arguments")))
                if self._calls.is_whole(slot):
                    self._calls.end(slot)
            case "message" if index not in self._has_text:
                for part in entries(item.get("content")):
                    self._add_text(index, "response.output_text.delta", text(part.get("text")))
                    self._add_text(index, "response.refusal.delta", text(part.get("refusal")))
            case "reasoning" if index not in self._has_text:
                thoughts = entries(item.get("content")) or entries(item.get("summary"))
                for part in thoughts:
                    self._add_text(index, "response.reasoning_text.delta", text(part.get("text")))
            case "message" | "reasoning":
                pass
            case "tool_search_call" if self._search.is_open:
                self._search.read_call(item)
            case "tool_search_output" if self._search.is_open:
                found = None if index in self._has_text else self._search.read_output(item)
                self._has_text.add(index)
                self._out += [found] if found else []
            case kind:
                if index not in self._has_text:
                    self._has_text.add(index)
                    note = f"an item of the unknown type {text(kind)[:60]!r} was left out"
                    self._out.append(Diagnostic("unknown_item", note))


def events_of(body: dict[str, Any], tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker) -> list[Event]:
    """Return the events of an answer that was not streamed."""
    decoder = ReplyDecoder(tools, make_id=make_id)
    return [*decoder.feed(body), *decoder.close()]
