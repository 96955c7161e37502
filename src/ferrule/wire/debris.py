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
from ferrule.wire.backlog import Backlog
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
# A longer line is text, so that no more than this waits to become a fence.
_MAX_FENCE_LINE = 256
_SPACE = re.compile(r"\s*")
_NOT_SPACE = re.compile(r"\S")
_FENCE_END = re.compile(r"```[^\S\n]*")
_NOT_FENCE_END = re.compile(r"\S|\n")


class DebrisFilter:
    """Passes the events of one reply through, without the debris."""

    def __init__(self) -> None:
        self._held = Backlog()
        self._is_after_call = False
        self._is_at_line_start = True
        self._out: list[Event] = []

    def read(self, events: Sequence[Event]) -> list[Event]:
        """Return the events that became certain."""
        for event in events:
            match event:
                case TextDelta(text):
                    if self._held.add(text):
                        self._drop_after_call(is_over=False)
                        if not self._is_after_call:
                            self._emit(self._fence_start(_MAYBE_FENCE))
                case CallStart():
                    self._held.join()
                    self._drop_after_call(is_over=True)
                    self._emit(self._fence_start(_FENCE_LINE))
                    self._drop(len(self._held.text))
                    self._out.append(event)
                case CallEnd():
                    self._out.append(event)
                    self._is_after_call = True
                case _:
                    self._out.append(event)
        return self._take()

    def close(self) -> list[Event]:
        """End the reply; return what was still held."""
        self._held.join()
        self._drop_after_call(is_over=True)
        self._emit(len(self._held.text))
        return self._take()

    def _take(self) -> list[Event]:
        events, self._out = self._out, []
        return events

    def _drop_after_call(self, *, is_over: bool) -> None:
        held = self._held
        while self._is_after_call and held.has_text:
            end = self._debris_end(is_over=is_over)
            if end is None:
                return
            self._is_after_call = end > held.at
            self._drop(end)

    def _debris_end(self, *, is_over: bool) -> int | None:
        """Where the debris that follows ends, with the white space before it; None if more text decides."""
        held = self._held
        text = held.text
        space = _SPACE.match(text, held.at)
        begin = space.end() if space else held.at
        if begin == len(text):
            return held.at if is_over else held.wait_for(_NOT_SPACE)
        ends, blocks = _markup()
        for mark, end in blocks.items():
            if text.startswith(mark, begin):
                at = text.find(end, begin)
                if at >= 0:
                    return at + len(end)
                return len(text) if is_over else held.wait_for(re.compile(re.escape(end)), len(end))
        mark = next((mark for mark in ends if text.startswith(mark, begin)), None)
        if mark is not None:
            return begin + len(mark)
        fence = _FENCE_END.match(text, begin)
        if fence and fence.end() == len(text) and not is_over:
            return held.wait_for(_NOT_FENCE_END)
        if fence:
            # A fence that ends, and not one that begins: nothing follows on its line.
            return begin + len(_FENCE) if text[fence.end() : fence.end() + 1] in ("", "\n") else held.at
        lead = text[begin : begin + _longest_mark()]
        is_undecided = any(mark.startswith(lead) for mark in (*ends, *blocks, _FENCE))
        return None if is_undecided and not is_over else held.at

    def _fence_start(self, fence: re.Pattern[str]) -> int:
        """Where the last line begins, if it opens a fence and nothing else; otherwise where the text ends."""
        text, at = self._held.text, self._held.at
        size = len(text)
        start = text.rfind("\n", max(at, size - _MAX_FENCE_LINE - 1), size - 1) + 1
        if start == 0:
            start = at
            if not self._is_at_line_start or size - at > _MAX_FENCE_LINE:
                return size
        return start if fence.fullmatch(text, start) else size

    def _drop(self, end: int) -> None:
        dropped, self._held.at = self._held.text[self._held.at : end], end
        if dropped:
            code = "made_up_result" if dropped.lstrip().startswith(tuple(_markup()[1])) else "stray_mark"
            self._out.append(Diagnostic(code, _MESSAGES[code], text=dropped))

    def _emit(self, end: int) -> None:
        text, self._held.at = self._held.text[self._held.at : end], end
        if text:
            self._is_at_line_start = text.endswith("\n")
            self._out.append(TextDelta(text))


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


@lru_cache(maxsize=1)
def _longest_mark() -> int:
    ends, blocks = _markup()
    return max(map(len, (*ends, *blocks)))
