"""Decode Ollama's answer into events, streamed or not. Calls come whole; the last object has the finish reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from ferrule.core.event import Diagnostic, Event, FinishReason, ReasoningDelta, TextDelta, Usage
from ferrule.core.ids import IdMaker
from ferrule.core.json_text import loads
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.finish_reason import finish_of
from ferrule.dialects.incoming_calls import IncomingCalls
from ferrule.dialects.lenient_json import count, entries, json_text, mapping, message_of, text
from ferrule.schema.reader import Reader

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\S)')
_TAIL = re.compile(r"\s*\}?\s*")


class ForcedText:
    """Feeds one call. Unexpected text goes into the arguments, or into a diagnostic at the end."""

    def __init__(self, calls: IncomingCalls) -> None:
        self._calls = calls
        self._slot: int | None = None
        self._reader = Reader()
        self._text = ""

    def feed(self, text: str) -> None:
        self._text += text
        if self._slot is None:
            head = _HEAD.match(self._text)
            name = _name(head[1]) if head else ""
            if head is None or not name:
                return
            self._slot = self._calls.open()
            self._calls.name(self._slot, name)
            self._text = self._text[head.end() :]
        self._read(self._slot)

    def close(self) -> Diagnostic | None:
        """Return a diagnostic for text that belongs to no call."""
        if self._slot is None:
            return self._read_whole()
        if not self._reader.is_done:
            self._calls.arguments(self._slot, self._text)
            return None
        rest = self._text[_end_of_tail(self._text) :]
        return Diagnostic("text_after_call", "there was text after the call", rest) if rest else None

    def _read(self, slot: int) -> None:
        if self._reader.is_done:
            return
        end = len(self._text) if self._reader.is_bad else self._reader.read(self._text, 0, False)
        self._calls.arguments(slot, self._text[:end])
        self._text = self._text[end:]

    def _read_whole(self) -> Diagnostic | None:
        """Read a call whose fields came in another order, which is only possible at the end."""
        try:
            value = loads(self._text)
        except (ValueError, RecursionError):
            value = None
        call = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        name, arguments = call.get("name"), call.get("arguments", call.get("parameters"))
        if isinstance(name, str) and name and arguments is not None:
            slot = self._calls.open()
            self._calls.name(slot, name)
            self._calls.arguments(slot, json_text(arguments))
            return None
        return Diagnostic("no_call", "a call was required, but the answer is not one", self._text)


def _name(quoted: str) -> str:
    """Return the decoded string, "" if it is not valid JSON."""
    try:
        return str(loads(quoted))
    except ValueError:
        return ""


def _end_of_tail(text: str) -> int:
    tail = _TAIL.match(text)
    return tail.end() if tail else 0


class ReplyDecoder:
    """With `forced` the text is one call, because the request had the `format` of `format_for`."""

    def __init__(self, tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker, forced: bool = False) -> None:
        self._out: list[Event] = []
        self._calls = IncomingCalls(tools, make_id, self._out.append)
        self._forced = ForcedText(self._calls) if forced else None
        self._is_done = False
        self._is_cut = False
        self._has_failed = False
        self._usage: Usage | None = None

    def feed(self, chunk: dict[str, Any]) -> list[Event]:
        if chunk.get("error"):
            self._has_failed = True
            self._out.append(Diagnostic("engine_error", message_of(chunk["error"])))
        message = mapping(chunk.get("message"))
        if text(message.get("thinking")):
            self._out.append(ReasoningDelta(message["thinking"]))
        self._add_content(text(message.get("content")))
        for call in entries(message.get("tool_calls")):
            self._call(text(call.get("id")), mapping(call.get("function")))
        if chunk.get("done") is True:
            self._is_done = True
            self._is_cut = chunk.get("done_reason") == "length"
            if "eval_count" in chunk or "prompt_eval_count" in chunk:
                self._usage = Usage(count(chunk.get("prompt_eval_count")), count(chunk.get("eval_count")))
        return self._take_events()

    def close(self) -> list[Event]:
        """End all calls. Without a last object the answer was cut off, and there is no `Finish`."""
        is_broken = not self._is_done or self._has_failed
        note = self._forced.close() if self._forced else None
        if note:
            self._out.append(note)
        self._calls.end_all(is_cut=is_broken or self._is_cut)
        if not is_broken:
            reason = FinishReason.LENGTH if self._is_cut else FinishReason.STOP
            self._out.append(finish_of(reason, self._calls.complete_count, self._usage))
        elif not self._has_failed:
            self._out.append(Diagnostic("broken_off", "the stream ended before the engine reported that it was done"))
        return self._take_events()

    def _take_events(self) -> list[Event]:
        events = self._out.copy()
        self._out.clear()
        return events

    def _add_content(self, content: str) -> None:
        if not content:
            return
        if self._forced:
            self._forced.feed(content)
        else:
            self._out.append(TextDelta(content))

    def _call(self, id: str, function: dict[str, Any]) -> None:
        slot = self._calls.open()
        self._calls.identify(slot, id)
        self._calls.name(slot, text(function.get("name")))
        self._calls.finish_name()
        self._calls.arguments(slot, json_text(function.get("arguments")))
        if self._calls.is_whole(slot):
            self._calls.end(slot)


def events_of(
    body: dict[str, Any], tools: Iterable[ToolDefinition] = (), *, make_id: IdMaker, forced: bool = False
) -> list[Event]:
    """Return the events of an answer that was not streamed."""
    decoder = ReplyDecoder(tools, make_id=make_id, forced=forced)
    return [*decoder.feed(body), *decoder.close()]
