"""Seen: what has gone out of an answer so far, as far as its end depends on it. Must not know any backend or format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ferrule.core.event import CallEnd, Diagnostic, Event, Finish, FinishReason, TextDelta, Usage
from ferrule.engines.generator import Ended
from ferrule.schema.checker import checker_for


@dataclass(slots=True)
class Seen:
    """Tell it every event; it judges the whole and makes the finish."""

    ended: Ended | None = None
    has_calls: bool = False
    has_any_call: bool = False
    text: str = ""

    def noted(self, event: Event) -> Event:
        if isinstance(event, CallEnd):
            self.has_calls = self.has_calls or event.complete
            self.has_any_call = True
        elif isinstance(event, TextDelta):
            self.text += event.text
        return event

    def judged(self, schema: dict[str, Any] | None, *, is_demanded: bool) -> list[Event]:
        """What is wrong with an answer that was to fit a schema, or with one that was to be a call.

        A grammar does not say every keyword, and a backend may have lost the grammar.
        """
        if is_demanded and not self.has_any_call and self.ended is not None and not self.ended.is_cut_off:
            return [Diagnostic("choice_not_honoured", "a call was demanded, and none was written")]
        if schema is None or self.has_calls:
            return []
        faults = checker_for(schema).faults_of_text(self.text)
        return [Diagnostic("invalid_answer", "; ".join(map(str, faults)))] if faults else []

    def finish(self, tokens: int) -> Finish:
        ended = self.ended
        # A stream that ended without saying so was cut off.
        if ended is None or ended.is_cut_off:
            reason = FinishReason.LENGTH
        else:
            reason = FinishReason.TOOL_CALLS if self.has_calls else FinishReason.STOP
        written = ended.completion_tokens if ended and ended.completion_tokens is not None else tokens
        return Finish(reason, Usage((ended.prompt_tokens or 0) if ended else 0, written))
