"""ReplyState: what has been sent of an answer so far, to decide how it ends. Must not know any backend or format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ferrule.core.event import CallEnd, Diagnostic, Event, Finish, FinishReason, TextDelta, Usage
from ferrule.engines.generator import CompletionEnd
from ferrule.schema.checker import checker_for


@dataclass(slots=True)
class ReplyState:
    """Records every event of an answer; then makes the final diagnostics and the `Finish` event."""

    end: CompletionEnd | None = None
    has_calls: bool = False
    has_any_call: bool = False
    text: str = ""

    def record(self, event: Event) -> Event:
        if isinstance(event, CallEnd):
            self.has_calls = self.has_calls or event.complete
            self.has_any_call = True
        elif isinstance(event, TextDelta):
            self.text += event.text
        return event

    def diagnostics(self, schema: dict[str, Any] | None, *, is_demanded: bool) -> list[Event]:
        """Return diagnostics for an answer that does not match its schema or lacks a required call.

        A grammar does not cover every keyword, and a backend may not have followed it.
        """
        if is_demanded and not self.has_any_call and self.end is not None and not self.end.is_cut_off:
            return [Diagnostic("choice_not_honoured", "a call was required, and the model made none")]
        if schema is None or self.has_calls:
            return []
        faults = checker_for(schema).faults_of_text(self.text)
        return [Diagnostic("invalid_answer", "; ".join(map(str, faults)))] if faults else []

    def finish(self, tokens: int) -> Finish:
        end = self.end
        # A stream without an end event was cut off.
        if end is None or end.is_cut_off:
            reason = FinishReason.LENGTH
        else:
            reason = FinishReason.TOOL_CALLS if self.has_calls else FinishReason.STOP
        completion_tokens = end.completion_tokens if end and end.completion_tokens is not None else tokens
        return Finish(reason, Usage((end.prompt_tokens or 0) if end else 0, completion_tokens))
