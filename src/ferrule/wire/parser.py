"""Parser: turns a model's raw output into events. No IO and no clock; folding the events gives the whole reply.

The outer loop switches between text, reasoning, fenced code and calls; `ParsePlan` says what each literal means in each
of these modes. The parser is total: model output never raises, and every character ends up in text, in reasoning, in a
call or in a diagnostic.

The parser is a generator that yields whenever it needs more text. `feed` appends text and resumes it. This keeps the
code of a streaming parser as simple as that of one that has the whole text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ferrule.core.event import Diagnostic, Event, ReasoningDelta, TextDelta
from ferrule.core.reply import Reply, fold
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format
from ferrule.wire.item_reader import ItemReader
from ferrule.wire.node import Think
from ferrule.wire.parse_plan import LiteralAction, LiteralMeaning, ParseMode, plan_of
from ferrule.wire.tape import Tape, Walk
from ferrule.wire.tool_offer import ToolOffer


class Span(NamedTuple):
    """A range of the model's text; `kind` is "text", "reasoning", "call", "markup" or "diagnostic"."""

    kind: str
    start: int
    end: int


class Trace:
    """Spans in order, without gaps: each begins where the previous one ended."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._at = 0

    def add(self, kind: str, end: int) -> None:
        if end > self._at:
            self._spans.append(Span(kind, self._at, end))
            self._at = end

    def clear(self) -> None:
        self._spans.clear()

    def spans(self) -> tuple[Span, ...]:
        return tuple(self._spans)


class Parser:
    """Parses one reply. Call `feed` with text as it arrives, then `close`; both return the events that became certain.

    `tools` are the offered tools: their schemas give the types that the text leaves out, and formats without markers
    accept only calls to them. `prefix` is the part of the reply that the prompt already contains (a prefilled
    `<think>`). `calls_before` is the number of calls earlier in the conversation, for families that count them in ids.

    Example:
        from ferrule import fold
        from ferrule.formats import Parser, get_format

        parser = Parser(get_format("hermes"))
        events = []
        for piece in ('Let me look. <tool_call>{"name": "ping",', ' "arguments": {}}</tool_call>'):
            events += parser.feed(piece)
        events += parser.close()
        reply = fold(events)
    """

    def __init__(
        self,
        format: Format,
        tools: Iterable[ToolDefinition] | None = None,
        *,
        prefix: str = "",
        calls_before: int = 0,
        trace: bool = False,
    ) -> None:
        self._plan = plan_of(format)
        self._tape = Tape()
        self._out: list[Event] = []
        self._trace = Trace() if trace else None
        self._items = ItemReader(
            self._tape, self._plan, ToolOffer(tools), self._out.append, self._account, format.ids, calls_before
        )
        self._mode: ParseMode = self._plan.text_mode
        self._think: Think | None = None
        self._after_calls: str | None = None
        self._walk = self._outer()
        next(self._walk)
        if prefix:
            self.feed(prefix)
            if self._trace:
                self._trace.clear()

    @property
    def spans(self) -> tuple[Span, ...]:
        """With `trace`: what every character of the text was parsed as, in order."""
        return self._trace.spans() if self._trace else ()

    def feed(self, text: str) -> list[Event]:
        """Parse more text; return the events that became certain."""
        if self._tape.ended or not text:
            return []
        self._tape.feed(text)
        return self._resume()

    def close(self) -> list[Event]:
        """End the text; return the events for what was still held back."""
        if self._tape.ended:
            return []
        self._tape.ended = True
        return self._resume()

    def _resume(self) -> list[Event]:
        next(self._walk, None)
        events = self._out[:]
        self._out.clear()
        return events

    def _outer(self) -> Walk[None]:
        tape = self._tape
        while True:
            if self._after_calls is not None:
                yield from self._gap(self._after_calls)
            hit = self._mode.stops.scan(tape.text, tape.at, tape.ended)
            if hit.at > tape.at:
                text = tape.text[tape.at : hit.at]
                tape.at = hit.at
                self._emit_text(text)
            if hit.literal:
                yield from self._act(self._mode.actions[hit.literal], hit.literal)
            elif tape.ended:
                return
            else:
                yield

    def _gap(self, gap: str) -> Walk[None]:
        """Decide on white space after a call: markup if a marker or the end follows, text if text follows."""
        tape = self._tape
        gap += yield from tape.space()
        while True:
            hit = self._mode.stops.scan(tape.text, tape.at, tape.ended)
            if hit.at > tape.at or hit.literal or tape.ended:
                break
            yield
        self._after_calls = None
        text_follows = hit.at > tape.at or (not hit.literal and self._plan.text_follows_calls and not self._think)
        if gap.strip() or text_follows:
            self._emit_text(gap)
        else:
            self._account("markup", tape.position)

    def _act(self, actions: tuple[LiteralAction, ...], literal: str) -> Walk[None]:
        meaning = actions[0].meaning
        if meaning is LiteralMeaning.CALLS:
            yield from self._calls([action for action in actions if action.meaning is LiteralMeaning.CALLS], literal)
            return
        self._tape.at += len(literal)
        if meaning is LiteralMeaning.FENCE:
            self._emit_text(literal)
            self._mode = self._plan.text_mode if self._mode is self._plan.fence_mode else self._plan.fence_mode
            return
        if meaning is LiteralMeaning.STRAY:
            self._out.append(Diagnostic("stray_mark", "a closing marker without its opening", literal))
            self._account("diagnostic", self._tape.position)
            return
        self._account("markup", self._tape.position)
        if meaning is LiteralMeaning.THINK and isinstance(actions[0].item, Think):
            self._think = actions[0].item
            self._mode = self._plan.think_modes[id(self._think)]
        elif meaning is LiteralMeaning.END_THINK:
            self._think = None
            self._mode = self._plan.text_mode

    def _calls(self, actions: list[LiteralAction], literal: str) -> Walk[None]:
        outcome = yield from self._items.read(actions)
        if outcome.accepted:
            self._account("call", self._tape.position - len(outcome.leftover))
            self._after_calls = outcome.leftover
            return
        fence = self._plan.fence
        if fence and literal.startswith(fence):
            # The fence quotes code and is no call: it is text up to where it closes.
            self._tape.rewind(len(literal))
            self._tape.release()
            self._emit_text(literal)
            self._mode = self._plan.fence_mode
            return
        text = self._tape.held_text()
        self._tape.release()
        if outcome.is_prose:
            self._emit_text(text)
        else:
            self._out.append(Diagnostic("cut_off", outcome.problem, text))
            self._account("diagnostic", self._tape.position)

    def _emit_text(self, text: str) -> None:
        """Emit text that was just consumed."""
        if text:
            self._out.append(ReasoningDelta(text) if self._think else TextDelta(text))
            self._account("reasoning" if self._think else "text", self._tape.position)

    def _account(self, kind: str, end: int) -> None:
        if self._trace:
            self._trace.add(kind, end)


def parse(
    format: Format, text: str, tools: Iterable[ToolDefinition] | None = None, *, prefix: str = "", calls_before: int = 0
) -> Reply:
    """Parse a complete text into a `Reply`.

    Example:
        from ferrule.formats import get_format, parse

        text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
        reply = parse(get_format("hermes"), text)
        reply.calls[0].arguments  # {"city": "Paris"}
    """
    parser = Parser(format, tools, prefix=prefix, calls_before=calls_before)
    return fold([*parser.feed(text), *parser.close()])
