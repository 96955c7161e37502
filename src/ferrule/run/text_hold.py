"""TextHold: passes the events of one reply on, and keeps its text back for as long as a hook wants that.

What was passed on cannot be taken back. So a text that a hook may want to drop is kept back until it is clear that it
is none. A call ends that: what was kept back is then passed on before it.
"""

from __future__ import annotations

from collections.abc import Callable

from ferrule.core.event import DEBUG_EVENTS, CallStart, Event, Finish, ReasoningDelta, TextDelta

# A long text is looked at again when it has grown by an eighth: at each piece, the time would grow with its square.
_SHORT, _GROWTH = 256, 8


class TextHold:
    """`holds` says whether a text may not be shown yet."""

    def __init__(self, emit: Callable[[Event], None], holds: Callable[[str], bool]) -> None:
        self._emit = emit
        self._holds: Callable[[str], bool] | None = holds
        self._events: list[Event] = []
        self._text = ""
        self._next_length = 0
        self.is_text_shown = False

    def add(self, event: Event) -> None:
        """Take the next event of the reply."""
        if self._holds is None:
            self.is_text_shown = self.is_text_shown or isinstance(event, TextDelta)
            self._emit(event)
        elif isinstance(event, CallStart):
            self.release()
            self._emit(event)
        elif isinstance(event, TextDelta):
            self._events.append(event)
            self._text += event.text
            if len(self._text) >= self._next_length:
                if not self._holds(self._text):
                    self.release()
                self._next_length = 0 if len(self._text) < _SHORT else len(self._text) * (_GROWTH + 1) // _GROWTH
        elif type(event) in DEBUG_EVENTS or (isinstance(event, ReasoningDelta) and not self._events):
            # Debug events show what the model wrote, dropped or not.
            self._emit(event)
        else:
            self._events.append(event)

    def release(self) -> None:
        """Pass on what was kept back, and everything from now on."""
        self._holds = None
        events, self._events = self._events, []
        for event in events:
            self.add(event)

    def drop(self) -> None:
        """Drop the text that was kept back. The end of the reply is passed on, because it says what the reply cost."""
        for event in self._events:
            if isinstance(event, Finish):
                self._emit(event)
        self._events = []
