"""Reply: a model's whole reply, folded from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
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
    ToolSearch,
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
    stop: str = field(default="", compare=False)
    """The stop string that ended the reply, if one did and the engine says so."""
    searches: tuple[tuple[int, ToolSearch], ...] = ()
    """The searches among deferred tools that were answered while the reply was written, each with its place: the number
    of parts before it."""
    loaded: frozenset[str] | None = field(default=None, compare=False, repr=False)
    """The names of the tools that the model could call, if it could not call all of the request."""
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

    def as_messages(self) -> tuple[ChatMessage, ...]:
        """Return the reply as messages of the conversation, each search with its result where the model made it.

        A search that was written beside other calls stands before them: their results are not known yet.
        """
        if not self.searches:
            return (self.as_message(),)
        messages: list[ChatMessage] = []
        start = 0
        first_call = next((place for place, part in enumerate(self.parts) if isinstance(part, ToolCall)), None)
        for place, search in self.searches:
            end = place if first_call is None else min(place, first_call)
            messages.append(ChatMessage(Role.ASSISTANT, (*self.parts[start:end], search.call)))
            messages.append(ChatMessage(Role.TOOL, (search.result,)))
            start = end
        return (*messages, replace(self, parts=self.parts[start:]).as_message())


def events_of(reply: Reply) -> Iterator[Event]:
    """Yield events whose fold is the reply, each part in one piece."""
    index = 0
    for part in reply.parts:
        match part:
            case Text(text):
                yield TextDelta(text)
            case Reasoning(text, signature, encrypted):
                yield ReasoningDelta(text, signature, encrypted)
            case ToolCall():
                yield CallStart(index, part.id, part.name)
                yield ArgumentsDelta(index, part.function.arguments)
                yield CallEnd(index, part.complete, part.receipt)
                index += 1
    yield from reply.diagnostics
    yield Finish(reply.finish_reason, reply.usage, reply.stop)


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
        self._parts: list[tuple[type[Text] | type[Reasoning], list[str]] | Reasoning | _OpenCall] = []
        self._searches: list[tuple[int, ToolSearch]] = []
        self._calls: dict[int, _OpenCall] = {}
        self._diagnostics: list[Diagnostic] = []
        self._finish: Finish | None = None

    def add(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._append(Text, text)
            case ReasoningDelta(text, signature, encrypted):
                self._append(Reasoning, text)
                if signature or encrypted:
                    self._seal(signature, encrypted)
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
            case ToolSearch():
                self._searches.append((len(self._parts), event))
            case RuleShown() | WireText():
                # The other events already contain what these show.
                pass

    def reply(self) -> Reply:
        parts = tuple(map(_folded_part, self._parts))
        finish, diagnostics, searches = self._finish, tuple(self._diagnostics), tuple(self._searches)
        if finish is None:
            return Reply(parts, diagnostics, searches=searches)
        return Reply(parts, diagnostics, finish.reason, finish.usage, finish.stop, searches, finish.loaded)

    def _append(self, kind: type[Text] | type[Reasoning], text: str) -> None:
        if not text:
            return
        if self._parts and not self._follows_search:
            last = self._parts[-1]
            if isinstance(last, tuple) and last[0] is kind:
                last[1].append(text)
                return
        self._parts.append((kind, [text]))

    @property
    def _follows_search(self) -> bool:
        """Whether a search came after the last part: what follows it is a part of its own."""
        return bool(self._searches) and self._searches[-1][0] == len(self._parts)

    def _seal(self, signature: str, encrypted: str) -> None:
        """End the open part of reasoning with what its provider added to it. Without a text it is a part of its own."""
        last = self._parts[-1] if self._parts else None
        text = ""
        if isinstance(last, tuple) and last[0] is Reasoning:
            text = "".join(last[1])
            del self._parts[-1]
        self._parts.append(Reasoning(text, signature, encrypted))


def _folded_part(part: tuple[type[Text] | type[Reasoning], list[str]] | Reasoning | _OpenCall) -> ReplyPart:
    if isinstance(part, _OpenCall):
        return part.as_call()
    return part if isinstance(part, Reasoning) else part[0]("".join(part[1]))


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
