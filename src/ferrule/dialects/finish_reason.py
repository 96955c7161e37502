"""The finish reason of an answer, the same for every API: derived from the calls, unless the answer was cut off."""

from __future__ import annotations

from ferrule.core.event import Finish, FinishReason, Usage


def finish_of(reason: FinishReason, complete_calls: int, usage: Usage | None) -> Finish:
    """Return the `Finish` event with the right reason.

    Engines report "stop" although they made a call, and "tool_calls" although none of the calls can be read.
    """
    if reason is FinishReason.LENGTH:
        return Finish(reason, usage)
    return Finish(FinishReason.TOOL_CALLS if complete_calls else FinishReason.STOP, usage)
