"""DriftReader: reads calls that a model writes in another spelling than its family's.

Under `auto` a model may write its call as it saw calls most often: in a ```json fence, or as a bare JSON object,
whatever its chat template says. To the family's parser that is text. `DriftReader` follows the text events of a parser
(or of a provider's API) and turns such calls into call events.

**What is read, and what is only quoted.** A model also writes about calls: in documentation, in lists, in examples. So
a call is read only if all of this holds, and everything else stays text, to the letter:

- It is a block of whole lines: its opening begins a line, and nothing but white space follows it on its last line.
- Nothing but white space precedes it in the reply, or nothing but white space follows it. Prose after a block that
  follows prose is about the block.
- It is not inside another code fence.
- Every call in the block names an offered tool, and its arguments fit the tool's schema.

A block that fails only the last condition is reported: the model probably meant a call (`looks_like_a_call`). For an
engine that repairs calls (`repairs`), such a block at the end of the reply becomes call events, if it is one call of an
offered tool: the engine has its arguments written again, or else shows the text of the block, which `printed` holds.

**How.** Text is forwarded as it arrives, except lines that may open a block. From an opening on, whole lines are fed to
the parser of that spelling until it is certain what the block is. Working by lines makes the result independent of how
the text was cut into events, and each character is parsed at most twice. `DebrisFilter` then removes markup that the
model left around its calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    ReasoningDelta,
    TextDelta,
)
from ferrule.core.fault import Fault
from ferrule.core.tool import ToolDefinition
from ferrule.schema.checker import checker_for
from ferrule.wire.backlog import Backlog
from ferrule.wire.debris import DebrisFilter
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import opening_texts
from ferrule.wire.parser import Parser
from ferrule.wire.registry import get_format

LOOKS_LIKE_A_CALL = "looks_like_a_call"
_SPELLINGS = ("fenced_json", "bare_json", "hermes", "xlam")
_FENCE = "```"
_INDENT = " \t"
_INDENT_RUN = re.compile(r"[ \t]*")
_NOT_INDENT = re.compile(r"[^ \t]")
_NEWLINE = re.compile(r"\n")


@dataclass(slots=True)
class _Block:
    """Lines that may be calls, and what the parser of their spelling made of them so far."""

    spelling: Format
    parser: Parser
    begins_reply: bool
    lines: list[str] = field(default_factory=list[str])
    events: list[Event] = field(default_factory=list[Event])
    is_in_fence: bool = False
    open_calls: int = 0
    ended_calls: int = 0

    def add(self, events: Sequence[Event]) -> None:
        self.events += events
        for event in events:
            self.open_calls += isinstance(event, CallStart) - isinstance(event, CallEnd)
            self.ended_calls += isinstance(event, CallEnd)

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def has_ended_calls(self) -> bool:
        return self.ended_calls > 0 and not self.open_calls


class DriftReader:
    """Passes the events of one reply through and replaces the text of drifted calls by call events.

    `drifted` says for each such call, by its index, from which format to which spelling the model drifted. `printed`
    holds the text of a call whose arguments do not fit.
    """

    def __init__(
        self,
        format: Format | None,
        tools: Sequence[ToolDefinition],
        calls_before: int = 0,
        *,
        repairs: bool = False,
    ) -> None:
        self._name = format.name if format else "the API's own"
        self._make_id = format.ids.make if format else None
        self._spellings = _spellings(format)
        self._tools = {tool.name: tool for tool in tools}
        self._calls_before = calls_before
        self._repairs = repairs
        self._count = 0
        self._indexes: dict[int, int] = {}
        self._lead_size = max(len(text) for text, _ in self._spellings)
        self._held = Backlog()
        self._block: _Block | None = None
        self._is_at_line_start = True
        self._has_text = False
        self._is_in_fence = False
        self._out: list[Event] = []
        self._debris = DebrisFilter()
        self.drifted: dict[int, str] = {}
        self.printed: dict[int, str] = {}

    def read(self, events: Sequence[Event]) -> list[Event]:
        """Return the events that became certain."""
        for event in events:
            match event:
                case TextDelta(text):
                    if self._held.add(text):
                        self._read_lines(is_over=False)
                case CallStart(index, id, name):
                    # The family's own call follows, so what was held is text before it.
                    self._end_text()
                    self._indexes[index] = self._count
                    self._out.append(CallStart(self._count, id, name))
                    self._count += 1
                case ArgumentsDelta(index) | CallEnd(index):
                    self._out.append(replace(event, index=self._indexes[index]))
                case Diagnostic(index=int(index)) if index in self._indexes:
                    self._out.append(replace(event, index=self._indexes[index]))
                case ReasoningDelta():
                    self._end_text()
                    self._out.append(event)
                case _:
                    self._out.append(event)
        return self._take()

    def close(self) -> list[Event]:
        """End the reply; return what was still held."""
        self._read_lines(is_over=True)
        if self._block is not None:
            self._block.add(self._block.parser.close())
            self._end_block(self._block, ends_reply=True)
        return [*self._take(), *self._debris.close()]

    def _take(self) -> list[Event]:
        events, self._out = self._out, []
        return self._debris.read(events)

    def _end_text(self) -> None:
        """What is held is followed by something other than text."""
        self._read_lines(is_over=True)
        if self._block is not None:
            self._block.add(self._block.parser.close())
            self._end_block(self._block, ends_reply=False)

    def _read_lines(self, *, is_over: bool) -> None:
        held = self._held
        if is_over:
            held.join()
        while held.has_text:
            if self._block is None and not self._read_text(is_over=is_over):
                return
            if self._block is not None and held.has_text:
                line = self._next_line()
                if not line.endswith("\n") and not is_over:
                    held.wait_for(_NEWLINE)
                    return
                held.at += len(line)
                self._read_block_line(self._block, line)

    def _next_line(self) -> str:
        """The text up to the end of the line, or as far as it has arrived."""
        text, at = self._held.text, self._held.at
        end = text.find("\n", at) + 1
        return text[at : end or len(text)]

    def _read_text(self, *, is_over: bool) -> bool:
        """Forward text up to the next line that opens a block. False: more text is needed to decide."""
        held = self._held
        if self._is_at_line_start:
            indent = _INDENT_RUN.match(held.text, held.at)
            begin = indent.end() if indent else held.at
            lead = held.text[begin : begin + self._lead_size]
            if not lead and not is_over:
                held.wait_for(_NOT_INDENT)
                return False
            if not self._is_in_fence:
                spelling = next((form for text, form in self._spellings if lead.startswith(text)), None)
                if spelling is not None:
                    self._block = _Block(spelling, Parser(spelling, self._tools.values()), not self._has_text)
                    return True
                if not is_over and any(text.startswith(lead) for text, _ in self._spellings):
                    return False
            if not is_over and _FENCE.startswith(lead):
                # It may become a fence.
                return False
            if lead.startswith(_FENCE):
                line = self._next_line()
                if not line.endswith("\n") and not is_over:
                    held.wait_for(_NEWLINE)
                    return False
                self._is_in_fence ^= _toggles_fence(line)
        line = self._next_line()
        held.at += len(line)
        self._emit_text(line)
        return True

    def _emit_text(self, text: str) -> None:
        if text:
            self._has_text = self._has_text or not text.isspace()
            self._is_at_line_start = text.endswith("\n")
            self._out.append(TextDelta(text))

    def _read_block_line(self, block: _Block, line: str) -> None:
        had_ended = block.has_ended_calls
        events = block.parser.feed(line)
        prose = "".join(event.text for event in events if isinstance(event, TextDelta))
        if had_ended and prose.strip() and not any(isinstance(event, CallStart) for event in events):
            # The block was over before this line.
            self._held.at -= len(line)
            self._end_block(block, ends_reply=False)
            return
        block.lines.append(line)
        block.add(events)
        if _toggles_fence(line):
            block.is_in_fence = not block.is_in_fence
        if prose.strip() or any(isinstance(event, CallEnd) and not event.complete for event in events):
            self._reject(block)

    def _end_block(self, block: _Block, *, ends_reply: bool) -> None:
        """The block is complete: hand its calls on, or its text."""
        prose = "".join(event.text for event in block.events if isinstance(event, TextDelta))
        if not block.has_ended_calls or prose.strip() or not (block.begins_reply or ends_reply):
            self._reject(block)
            return
        faults = self._faults(block.events)
        if faults and self._repairs and ends_reply and self._is_one_offered_call(block):
            self.printed[self._count] = block.text
        elif faults:
            self._reject(block, "; ".join(map(str, faults)))
            return
        self._block = None
        self._is_at_line_start = True
        indexes: dict[int, int] = {}
        for event in block.events:
            match event:
                case CallStart(index, id, name):
                    indexes[index] = self._count
                    self.drifted[self._count] = f"{self._name} -> {block.spelling.name}"
                    made = self._make_id(name, self._calls_before + self._count) if self._make_id else id
                    self._out.append(CallStart(self._count, made, name))
                    self._count += 1
                case ArgumentsDelta(index) | CallEnd(index) | Diagnostic(index=int(index)):
                    self._out.append(replace(event, index=indexes.get(index, index)))
                case _:
                    pass

    def _is_one_offered_call(self, block: _Block) -> bool:
        names = [event.name for event in block.events if isinstance(event, CallStart)]
        return len(names) == 1 and names[0] in self._tools

    def _faults(self, events: Sequence[Event]) -> list[Fault]:
        names: dict[int, str] = {}
        arguments: dict[int, list[str]] = {}
        for event in events:
            if isinstance(event, CallStart):
                names[event.index], arguments[event.index] = event.name, []
            elif isinstance(event, ArgumentsDelta):
                arguments[event.index].append(event.json)
        faults: list[Fault] = []
        for index, name in names.items():
            tool = self._tools.get(name)
            if tool is None:
                faults.append(Fault("", "not_offered", f"{name!r} is not offered"))
            else:
                faults += checker_for(tool.parameters).faults_of_text("".join(arguments[index]))
        return faults

    def _reject(self, block: _Block, problem: str = "") -> None:
        """The block is text. Inside of it nothing else is looked for."""
        self._block = None
        self._is_in_fence = block.is_in_fence
        if problem:
            self._out.append(unread_call(problem))
        self._emit_text(block.text)


def unread_call(problem: str) -> Diagnostic:
    """The diagnostic for a text that the model probably meant as a call."""
    return Diagnostic(
        LOOKS_LIKE_A_CALL,
        f"the text looks like a call and was not read as one: {problem}. With tool_choice 'required' an engine with a "
        "grammar writes only calls that fit",
    )


def _toggles_fence(line: str) -> bool:
    """Whether a line begins or ends a code fence. A fence on one line does both."""
    return line.lstrip(_INDENT).startswith(_FENCE) and line.count(_FENCE) % 2 == 1


@lru_cache(maxsize=512)
def _spellings(format: Format | None) -> tuple[tuple[str, Format], ...]:
    """The openings of every spelling but the format's own, the longest first."""
    own = {text.strip() for text in opening_texts(format.calls)} if format else set[str]()
    forms = [get_format(name) for name in _SPELLINGS if format is None or name != format.name]
    pairs = {
        text: form
        for form in reversed(forms)
        for calls in (form.calls, *form.reply.also)
        for text in opening_texts(calls)
        if text.strip() not in own
    }
    return tuple(sorted(pairs.items(), key=lambda pair: -len(pair[0])))
