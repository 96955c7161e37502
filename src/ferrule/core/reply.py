"""Reply: a model's whole reply, folded from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.call import FunctionCall, Receipt, ToolCall
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
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.errors import DefinitionError

ReplyPart = Text | Reasoning | ToolCall


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply: its parts in order, diagnostics, and how it ended.

    Example:
        reply = await engine.ask("How is the weather in Rome?", tools=[get_weather])
        print(reply.text)
        for call in reply.calls:
            print(call.name, call.arguments)
    """

    parts: tuple[ReplyPart, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    finish: FinishReason | None = None
    usage: Usage | None = None
    decode: Callable[[Reply], Any] | None = field(default=None, compare=False, repr=False)
    """Turns the reply into its value, if the request had a `response_type`."""

    @staticmethod
    def of(*parts: ReplyPart | str) -> Reply:
        """Create a reply from its parts; a string is text."""
        return Reply(tuple(Text(part) if isinstance(part, str) else part for part in parts))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Reasoning))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The complete calls. Calls that were cut off are in `incomplete`."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall) and part.complete)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The complete calls, under the name that the chat APIs have for them."""
        return self.calls

    @property
    def content(self) -> str | None:
        """The text, under the name that the chat APIs have for it; None if there is none."""
        return self.text or None

    @property
    def incomplete(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall) and not part.complete)

    @property
    def value(self) -> Any:
        """The answer as an object of the request's `response_type`.

        Raises `InvalidResponseError` if the answer does not fit.

        Example:
            reply = await engine.ask("Name a city in Italy.", response_type=City)
            print(reply.value.name)
        """
        if self.decode is None:
            raise DefinitionError(
                "the request had no response_type",
                hint="Write engine.ask(..., response_type=Model), or use reply.text.",
            )
        return self.decode(self)

    @property
    def finish_reason(self) -> FinishReason:
        """The finish reason for a client. LENGTH stays LENGTH, whatever was parsed before."""
        if self.finish is FinishReason.LENGTH:
            return FinishReason.LENGTH
        return FinishReason.TOOL_CALLS if self.calls else FinishReason.STOP

    def as_message(self) -> ChatMessage:
        """Return the reply as a message of the conversation. Incomplete calls are left out."""
        parts = tuple(part for part in self.parts if not isinstance(part, ToolCall) or part.complete)
        return ChatMessage(Role.ASSISTANT, parts)


def events_of(reply: Reply) -> Iterator[Event]:
    """Yield events whose fold is the reply, each part in one piece."""
    index = 0
    for part in reply.parts:
        match part:
            case Text(text):
                yield TextDelta(text)
            case Reasoning(text):
                yield ReasoningDelta(text)
            case ToolCall():
                yield CallStart(index, part.id, part.name)
                yield ArgumentsDelta(index, part.function.arguments)
                yield CallEnd(index, part.complete, part.receipt)
                index += 1
    yield from reply.diagnostics
    yield Finish(reply.finish_reason, reply.usage)


def fold(events: Iterable[Event]) -> Reply:
    """Fold events into a reply. Adjacent deltas of one kind are one part, however the text was split into deltas.

    Example:
        reply = fold([TextDelta("It is "), TextDelta("sunny."), Finish(FinishReason.STOP)])
        assert reply.text == "It is sunny."
    """
    reply_fold = ReplyFold()
    for event in events:
        reply_fold.add(event)
    return reply_fold.reply()


class ReplyFold:
    """A fold in progress, for callers that need the reply so far between events."""

    def __init__(self) -> None:
        self._parts: list[tuple[type[Text] | type[Reasoning], list[str]] | _OpenCall] = []
        self._calls: dict[int, _OpenCall] = {}
        self._diagnostics: list[Diagnostic] = []
        self._finish: Finish | None = None

    def add(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._append(Text, text)
            case ReasoningDelta(text):
                self._append(Reasoning, text)
            case ArgumentsDelta(index, json):
                self._calls[index].json.append(json)
            case CallStart(index, id, name):
                call = _OpenCall(id, name, [])
                self._calls[index] = call
                self._parts.append(call)
            case CallEnd(index, complete, receipt):
                self._calls[index].complete = complete
                self._calls[index].receipt = receipt
            case Diagnostic():
                self._diagnostics.append(event)
            case Finish():
                self._finish = event
            case RuleShown() | WireText():
                # The other events already contain what these show.
                pass

    def reply(self) -> Reply:
        parts = tuple(
            part.as_call() if isinstance(part, _OpenCall) else part[0]("".join(part[1])) for part in self._parts
        )
        finish = self._finish
        return Reply(
            parts, tuple(self._diagnostics), finish.reason if finish else None, finish.usage if finish else None
        )

    def _append(self, kind: type[Text] | type[Reasoning], text: str) -> None:
        if not text:
            return
        if self._parts:
            last = self._parts[-1]
            if not isinstance(last, _OpenCall) and last[0] is kind:
                last[1].append(text)
                return
        self._parts.append((kind, [text]))


@dataclass(slots=True)
class _OpenCall:
    id: str
    name: str
    json: list[str]
    complete: bool = False
    receipt: Receipt | None = None

    def as_call(self) -> ToolCall:
        function = FunctionCall(self.name, "".join(self.json))
        return ToolCall(self.id, function, complete=self.complete, receipt=self.receipt)
