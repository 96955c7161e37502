"""How an answer ended, the same for every API: the reason follows from the calls, and a cut-off answer stays one."""

from __future__ import annotations

from ferrule.core.event import Finish, FinishReason, Usage


def finish_of(said: FinishReason, complete_calls: int, usage: Usage | None) -> Finish:
    """Engines say "stop" though they made a call, and "tool_calls" though none of them can be read."""
    if said is FinishReason.LENGTH:
        return Finish(said, usage)
    return Finish(FinishReason.TOOL_CALLS if complete_calls else FinishReason.STOP, usage)
