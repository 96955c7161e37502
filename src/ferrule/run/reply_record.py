"""Replied: one reply of a model as it is written down: where it stands, what it took, what it chose. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply, ReplyPart
from ferrule.run.tool_usage import Selection

REPLIED = "replied"
"""The kind of its row in the audit."""


@dataclass(frozen=True, slots=True)
class Took:
    """What a reply cost: the time until its end, the tokens where the engine tells, and how much was written."""

    seconds: float = 0.0
    usage: Usage | None = None
    bytes: int = 0
    finish: FinishReason | None = None

    @staticmethod
    def of(reply: Reply, seconds: float) -> Took:
        return Took(round(seconds, 6), reply.usage, sum(map(_size, reply.parts)), reply.finish)


@dataclass(frozen=True, slots=True)
class Replied:
    """Of which conversation, where in it, by which model. There is no selection where no tool was on offer."""

    conversation: str
    place: str
    """Its calls have places below it: "3.1" has "3.1.0" and "3.1.1"."""
    model: str
    selection: Selection | None = None
    took: Took = field(default_factory=Took)

    def as_detail(self) -> dict[str, object]:
        """For the audit, as JSON."""
        took = self.took
        return {
            "place": self.place,
            "model": self.model,
            "seconds": took.seconds,
            "prompt_tokens": took.usage.prompt_tokens if took.usage else None,
            "completion_tokens": took.usage.completion_tokens if took.usage else None,
            "bytes": took.bytes,
            "finish": took.finish.value if took.finish else "",
        }


def _size(part: ReplyPart) -> int:
    text = part.name + part.function.arguments if isinstance(part, ToolCall) else part.text
    return len(text.encode("utf-8", "surrogatepass"))
