"""The frames of `llm.chat@2.0`, in both directions: a model's events as JSON objects, and back.

They are the specification's: `token`, `tool_call_delta` with `arguments_delta`, `tool_call` with the arguments as an
object, and `done`. Ferrule adds `reasoning`, `diagnostic`, `tool_call_incomplete`, and a receipt to each call.

What is read comes from another program. So a frame that is wrong raises `EngineError`, frames of an unknown type are
skipped, and a receipt is what the sender claims: the caller checks each call itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ferrule.core.call import Receipt
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    RuleShown,
    TextDelta,
    Usage,
    WireText,
)
from ferrule.core.ids import make_unique
from ferrule.core.json_text import dumps, loads
from ferrule.dialects.extension import receipt_from
from ferrule.dialects.field import Field
from ferrule.dialects.sequence import EventSequence
from ferrule.errors import DefinitionError, EngineError

ChatFrame: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class _OpenCall:
    """A call that is being sent. `id` is unique among the calls of the reply; `engine_id` may not be."""

    engine_id: str
    id: str
    name: str
    arguments: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class FrameEncoder:
    """Encodes the events of one reply. `arguments_delta` is never a whole object before its `tool_call` comes."""

    _sequence: EventSequence = field(default_factory=partial(EventSequence, is_live=True))
    _calls: list[_OpenCall] = field(default_factory=list["_OpenCall"])

    def feed(self, event: Event) -> Iterator[ChatFrame]:
        match event:
            case Diagnostic(code, message, text, index):
                yield {"type": "diagnostic", "code": code, "message": message, "text": text, "index": index}
            case RuleShown():
                yield {"type": "rule", **asdict(event), "triggers": list(event.triggers)}
            case WireText(text, is_forced):
                yield {"type": "wire", "text": text, "is_forced": is_forced}
            case _:
                for ordered in self._sequence.feed(event):
                    yield from self._encode(ordered)

    def _encode(self, event: Event) -> Iterator[ChatFrame]:
        match event:
            case TextDelta(text):
                yield {"type": "token", "text": text}
            case ReasoningDelta(text):
                yield {"type": "reasoning", "text": text}
            case CallStart(_, id, name):
                unique = make_unique((*(call.id for call in self._calls), id))[-1]
                self._calls.append(_OpenCall(id, unique, name))
                yield {"type": "tool_call_delta", "id": unique, "name": name, "arguments_delta": ""}
            case ArgumentsDelta(index, json):
                self._calls[index].arguments.append(json)
                yield {"type": "tool_call_delta", "id": self._calls[index].id, "arguments_delta": json}
            case CallEnd(index, complete, receipt):
                yield self._call_end(self._calls[index], complete, receipt)
            case Finish(reason, usage):
                known = {} if usage is None else {"usage": asdict(usage)}
                yield {"type": "done", "finish_reason": reason.value, **known}
            case _:
                # Handled by `feed`; `EventSequence` returns no diagnostics.
                pass

    def _call_end(self, call: _OpenCall, complete: bool, receipt: Receipt | None) -> ChatFrame:
        named = {"id": call.id, "name": call.name}
        known = {} if receipt is None else {"receipt": receipt.as_dict()}
        text = "".join(call.arguments)
        if complete:
            return {"type": "tool_call", **named, "arguments": loads(text), **known}
        function = self._sequence.extension.incomplete.get(call.engine_id)
        return {"type": "tool_call_incomplete", **named, "arguments": function.arguments if function else text, **known}


@dataclass(slots=True)
class FrameDecoder:
    """Decodes the frames of one reply. `receipts` are those that the sender wrote, by the index of the call."""

    receipts: dict[int, Receipt] = field(default_factory=dict[int, Receipt])
    _ids: list[str] = field(default_factory=list[str])
    _arguments: list[str] = field(default_factory=list[str])

    def feed(self, frame: object) -> list[Event]:
        try:
            return list(self._decode(Field(frame)))
        except DefinitionError as fault:
            raise EngineError(f"the model's worker sent an invalid frame: {fault.message}") from fault

    def _decode(self, frame: Field) -> Iterator[Event]:
        match frame["type"].string():
            case "token":
                yield TextDelta(frame["text"].string())
            case "reasoning":
                yield ReasoningDelta(frame["text"].string())
            case "tool_call_delta":
                yield from self._call_delta(frame)
            case "tool_call":
                yield from self._call(frame)
            case "tool_call_incomplete":
                yield from self._incomplete_call(frame)
            case "diagnostic":
                text, index = frame["text"].or_else(Field.string, ""), frame["index"].optional(Field.integer)
                yield Diagnostic(frame["code"].string(), frame["message"].string(), text, index)
            case "rule":
                texts = {name: frame[name].string() for name in ("format", "target", "grammar", "prompt")}
                yield RuleShown(**texts, triggers=tuple(each.string() for each in frame["triggers"].items()))
            case "wire":
                yield WireText(frame["text"].string(), frame["is_forced"].or_else(Field.boolean, False))
            case "done":
                yield Finish(frame["finish_reason"].one_of(_REASONS), frame["usage"].optional(_usage))
            case _:
                # A newer worker may send more than this program knows.
                pass

    def _call_delta(self, frame: Field) -> Iterator[Event]:
        index = yield from self._begin(frame)
        json = frame["arguments_delta"].or_else(Field.string, "")
        if json:
            self._arguments[index] += json
            yield ArgumentsDelta(index, json)

    def _call(self, frame: Field) -> Iterator[Event]:
        index = yield from self._begin(frame)
        arguments = frame["arguments"].object()
        if not self._arguments[index]:
            self._arguments[index] = dumps(arguments)
            yield ArgumentsDelta(index, self._arguments[index])
        elif not _is_text_of(self._arguments[index], arguments):
            yield Diagnostic(
                "bad_arguments", "the pieces of the arguments are not the arguments of the call", "", index
            )
        self._read_receipt(index, frame)
        yield CallEnd(index)

    def _incomplete_call(self, frame: Field) -> Iterator[Event]:
        index = yield from self._begin(frame)
        sent, text = self._arguments[index], frame["arguments"].or_else(Field.string, "")
        if text.startswith(sent) and text != sent:
            yield ArgumentsDelta(index, text[len(sent) :])
        self._read_receipt(index, frame)
        yield CallEnd(index, complete=False)

    def _begin(self, frame: Field) -> Generator[Event, None, int]:
        """Yield the start of a call that is new, and return its index."""
        id = frame["id"].string()
        if id not in self._ids:
            self._ids.append(id)
            self._arguments.append("")
            yield CallStart(len(self._ids) - 1, id, frame["name"].string())
        return self._ids.index(id)

    def _read_receipt(self, index: int, frame: Field) -> None:
        receipt = receipt_from(frame["receipt"].object()) if frame["receipt"].is_given else None
        if receipt is not None:
            self.receipts[index] = receipt


def _is_text_of(text: str, arguments: Mapping[str, Any]) -> bool:
    try:
        return loads(text) == arguments
    except ValueError:
        return False


def _usage(field: Field) -> Usage:
    cached = field["cached_tokens"].or_else(Field.integer, 0)
    return Usage(field["prompt_tokens"].integer(), field["completion_tokens"].integer(), cached)


_REASONS = {reason.value: reason for reason in FinishReason}
