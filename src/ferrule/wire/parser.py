"""Parser: a model's text in, events out. No IO, no clock; the whole reply is the fold of the events.

The outer walk moves between text, reasoning, fenced code and calls; what a literal means in each comes from the plan.
It is total: model output never raises, and every character lands in text, in reasoning, in a call or in a diagnostic.
"""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.event import Diagnostic, Event, ReasoningDelta, TextDelta
from ferrule.core.reply import Reply, fold
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format
from ferrule.wire.item_reader import ItemReader
from ferrule.wire.node import Think
from ferrule.wire.parse_plan import Action, Meaning, Mode, plan_of
from ferrule.wire.tape import Tape, Walk
from ferrule.wire.tool_offer import Offered
from ferrule.wire.trace import Span, Trace


class Parser:
    """Reads one reply. `feed` text as it arrives, then `close`; both return the events that became certain.

    `tools` are those on offer: their schemas type what the wire leaves untyped, and formats without markers read only
    calls to them. `prefix` is what the prompt already holds of the reply (a prefilled `<think>`). `calls_before` is the
    number of calls earlier in the conversation, for families that count them in their ids.
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
            self._tape, self._plan, Offered(tools), self._out.append, self._account, format.ids, calls_before
        )
        self._mode: Mode = self._plan.text
        self._think: Think | None = None
        self._after_calls: str | None = None
        self._walk = self._outer()
        next(self._walk)
        if prefix:
            self.feed(prefix)
            if self._trace:
                self._trace.forget()

    @property
    def spans(self) -> tuple[Span, ...]:
        """With `trace`: where every character of the text landed, in order."""
        return self._trace.spans() if self._trace else ()

    def feed(self, text: str) -> list[Event]:
        """Read more text."""
        if self._tape.ended or not text:
            return []
        self._tape.feed(text)
        return self._resume()

    def close(self) -> list[Event]:
        """The text is over: what was held back is decided now."""
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
                self._say(text)
            if hit.found:
                yield from self._act(self._mode.actions[hit.found], hit.found)
            elif tape.ended:
                return
            else:
                yield

    def _gap(self, gap: str) -> Walk[None]:
        """White space after a call is markup when a marker or the end follows, and text when text follows."""
        tape = self._tape
        gap += yield from tape.space()
        while True:
            hit = self._mode.stops.scan(tape.text, tape.at, tape.ended)
            if hit.at > tape.at or hit.found or tape.ended:
                break
            yield
        self._after_calls = None
        text_follows = hit.at > tape.at or (not hit.found and self._plan.text_follows_calls and not self._think)
        if gap.strip() or text_follows:
            self._say(gap)
        else:
            self._account("markup", tape.position)

    def _act(self, actions: tuple[Action, ...], found: str) -> Walk[None]:
        meaning = actions[0].meaning
        if meaning is Meaning.CALLS:
            yield from self._calls([action for action in actions if action.meaning is Meaning.CALLS], found)
            return
        self._tape.at += len(found)
        if meaning is Meaning.FENCE:
            self._say(found)
            self._mode = self._plan.text if self._mode is self._plan.fenced else self._plan.fenced
            return
        if meaning is Meaning.STRAY:
            self._out.append(Diagnostic("stray_mark", "a closing mark without its opening", found))
            self._account("diagnostic", self._tape.position)
            return
        self._account("markup", self._tape.position)
        if meaning is Meaning.THINK and isinstance(actions[0].item, Think):
            self._think = actions[0].item
            self._mode = self._plan.thinking[id(self._think)]
        elif meaning is Meaning.END_THINK:
            self._think = None
            self._mode = self._plan.text

    def _calls(self, actions: list[Action], found: str) -> Walk[None]:
        outcome = yield from self._items.read(actions)
        if outcome.accepted:
            self._account("call", self._tape.position - len(outcome.leftover))
            self._after_calls = outcome.leftover
            return
        fence = self._plan.fence
        if fence and found.startswith(fence):
            # It only quotes something: the fence is text up to where it closes.
            self._tape.rewind(len(found))
            self._tape.release()
            self._say(found)
            self._mode = self._plan.fenced
            return
        text = self._tape.held()
        self._tape.release()
        if outcome.is_prose:
            self._say(text)
        else:
            self._out.append(Diagnostic("cut_off", outcome.problem, text))
            self._account("diagnostic", self._tape.position)

    def _say(self, text: str) -> None:
        """Give out text that was just read."""
        if text:
            self._out.append(ReasoningDelta(text) if self._think else TextDelta(text))
            self._account("reasoning" if self._think else "text", self._tape.position)

    def _account(self, kind: str, end: int) -> None:
        if self._trace:
            self._trace.add(kind, end)


def parse(
    format: Format, text: str, tools: Iterable[ToolDefinition] | None = None, *, prefix: str = "", calls_before: int = 0
) -> Reply:
    """A whole text at once: the same walk, fed once."""
    parser = Parser(format, tools, prefix=prefix, calls_before=calls_before)
    return fold([*parser.feed(text), *parser.close()])
