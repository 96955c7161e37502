"""DebrisFilter: keeps markup that models leave around calls out of the text that a user reads.

After a call a weak model may write an end marker once more, the end of a fence that it opened before the call, or a
tool result that it made up. None of that is for the user. The filter removes it where it touches a call; a diagnostic,
`stray_mark` or `made_up_result`, holds the removed text. The same markup anywhere else is part of the answer, for
example of one about chat templates. (The parser removes stray markers of the format itself.)

Must not know any single family: markers and results come from all formats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ferrule.core.event import CallEnd, CallStart, Diagnostic, Event, TextDelta
from ferrule.wire.format import Format
from ferrule.wire.node import Lit, Seq
from ferrule.wire.registry import all_formats

_FENCE = "```"
# The vocabularies of Mistral's tokenizers hold an end for [TOOL_CALLS], which no template writes.
_MORE_ENDS = ("[/TOOL_CALLS]",)
_MESSAGES = {
    "made_up_result": "the model wrote a tool's result itself; it was left out of the text",
    "stray_mark": "markup around a call was left out of the text",
}
_TAG = re.compile(r"[<\[].*[>\]]", re.DOTALL)
_FENCE_LINE = re.compile(r"[ \t]*```[a-z_]*[ \t]*\n?")
_MAYBE_FENCE = re.compile(r"[ \t]*(?:`{1,2}|```[a-z_]*[ \t]*\n?)?")


class DebrisFilter:
    """Passes the events of one reply through, without the debris."""

    def __init__(self) -> None:
        self._held = ""
        self._is_after_call = False
        self._is_at_line_start = True
        self._out: list[Event] = []

    def read(self, events: Sequence[Event]) -> list[Event]:
        """Return the events that became certain."""
        for event in events:
            match event:
                case TextDelta(text):
                    self._held += text
                    self._drop_after_call(is_over=False)
                    if not self._is_after_call:
                        self._emit(len(self._held) - self._fence_size(_MAYBE_FENCE))
                case CallStart():
                    self._drop_after_call(is_over=True)
                    self._emit(len(self._held) - self._fence_size(_FENCE_LINE))
                    self._drop(len(self._held))
                    self._out.append(event)
                case CallEnd():
                    self._out.append(event)
                    self._is_after_call = True
                case _:
                    self._out.append(event)
        return self._take()

    def close(self) -> list[Event]:
        """End the reply; return what was still held."""
        self._drop_after_call(is_over=True)
        self._emit(len(self._held))
        return self._take()

    def _take(self) -> list[Event]:
        events, self._out = self._out, []
        return events

    def _drop_after_call(self, *, is_over: bool) -> None:
        while self._is_after_call and self._held:
            size = _debris_size(self._held, is_over=is_over)
            if size is None:
                return
            self._drop(size)
            self._is_after_call = size > 0

    def _fence_size(self, fence: re.Pattern[str]) -> int:
        """The length of the last line, if it opens a fence and nothing else."""
        start = self._held.rfind("\n", 0, -1) + 1
        if start == 0 and not self._is_at_line_start:
            return 0
        return len(self._held) - start if fence.fullmatch(self._held, start) else 0

    def _drop(self, size: int) -> None:
        dropped, self._held = self._held[:size], self._held[size:]
        if dropped:
            code = "made_up_result" if dropped.lstrip().startswith(tuple(_markup()[1])) else "stray_mark"
            self._out.append(Diagnostic(code, _MESSAGES[code], text=dropped))

    def _emit(self, size: int) -> None:
        text, self._held = self._held[:size], self._held[size:]
        if text:
            self._is_at_line_start = text.endswith("\n")
            self._out.append(TextDelta(text))


def _debris_size(text: str, *, is_over: bool) -> int | None:
    """How many characters at the beginning are debris, with the white space before it; None if more text decides."""
    lead = text.lstrip()
    space = len(text) - len(lead)
    ends, blocks = _markup()
    for begin, end in blocks.items():
        if lead.startswith(begin):
            at = lead.find(end)
            return space + at + len(end) if at >= 0 else len(text) if is_over else None
    mark = next((mark for mark in ends if lead.startswith(mark)), None)
    if mark is not None:
        return space + len(mark)
    if lead.startswith(_FENCE):
        # A fence that ends, and not one that begins: nothing follows on its line.
        line, newline, _ = lead.partition("\n")
        is_end = line.rstrip() == _FENCE
        return (space + len(_FENCE) if newline or is_over else None) if is_end else 0
    is_undecided = any(mark.startswith(lead) for mark in (*ends, *blocks, _FENCE))
    return None if is_undecided and not is_over else 0


@lru_cache(maxsize=1)
def _markup() -> tuple[tuple[str, ...], dict[str, str]]:
    """The end markers of all formats, the longest first, and the end of each kind of result by its beginning."""
    ends = set(_MORE_ENDS)
    blocks: dict[str, str] = {}
    for format in all_formats().values():
        ends |= {text for text in map(str.strip, _ends(format)) if _TAG.fullmatch(text)}
        first, last = format.result.each.parts[0], format.result.each.parts[-1]
        if isinstance(first, Lit) and isinstance(last, Lit):
            begin, end = first.canonical.strip(), last.canonical.strip()
            if _TAG.fullmatch(begin) and end:
                blocks.setdefault(begin, end)
    return tuple(sorted(ends, key=lambda text: (-len(text), text))), blocks


def _ends(format: Format) -> tuple[str, ...]:
    call = format.calls.call
    last = call.parts[-1] if isinstance(call, Seq) else None
    own = last.spellings if isinstance(last, Lit) else ()
    return (*own, *(format.calls.close.spellings if format.calls.close else ()))
