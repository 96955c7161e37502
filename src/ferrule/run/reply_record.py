"""ReplyRecord: one reply of a model as it is recorded: where it belongs, what it cost, which tools it called.

Values only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply, ReplyPart
from ferrule.run.tool_usage import ToolUsage

REPLY_KIND = "replied"
"""The kind of its row in the audit log."""


@dataclass(frozen=True, slots=True)
class ReplyCost:
    """What a reply cost: the time until its end, the tokens if the engine reports them, and the bytes written."""

    seconds: float = 0.0
    usage: Usage | None = None
    bytes: int = 0
    finish: FinishReason | None = None

    @staticmethod
    def of(reply: Reply, seconds: float) -> ReplyCost:
        return ReplyCost(round(seconds, 6), reply.usage, sum(map(_size, reply.parts)), reply.finish)


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """One reply: its conversation, its place there, its model. `tool_usage` is None where no tool was offered."""

    conversation: str
    place: str
    """The turn and the round, such as "3.1". Its calls have places below it: "3.1.0" and "3.1.1"."""
    model: str
    tool_usage: ToolUsage | None = None
    cost: ReplyCost = field(default_factory=ReplyCost)

    def as_detail(self) -> dict[str, object]:
        """Return the detail of its audit row, as JSON."""
        cost = self.cost
        return {
            "place": self.place,
            "model": self.model,
            "seconds": cost.seconds,
            "prompt_tokens": cost.usage.prompt_tokens if cost.usage else None,
            "completion_tokens": cost.usage.completion_tokens if cost.usage else None,
            "bytes": cost.bytes,
            "finish": cost.finish.value if cost.finish else "",
        }


def _size(part: ReplyPart) -> int:
    text = part.name + part.function.arguments if isinstance(part, ToolCall) else part.text
    return len(text.encode("utf-8", "surrogatepass"))
