"""Events: what a streaming answer and a running tool loop report, in order.

`Engine.stream` yields the events of one reply. `ToolConversation.stream` and the `stream_to` of
`ToolExecutor.run_chat_with_tools` add those of the loop: tools that start and finish, approvals that are needed, and
the end.

Example:
    from ferrule import ToolConversation, load_engine
    from ferrule.events import TextDelta, ToolFinished

    async def show(conversation: ToolConversation, text: str) -> None:
        async for event in conversation.stream(text):
            match event:
                case TextDelta(text):
                    print(text, end="")
                case ToolFinished(result):
                    print(f"[{result.name}: {result.text}]")
                case _:
                    pass
"""

from typing import TYPE_CHECKING

from ferrule.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ferrule.core.context import Progress
    from ferrule.core.event import (
        ArgumentsDelta,
        CallEnd,
        CallStart,
        Diagnostic,
        Event,
        Finish,
        FinishReason,
        ReasoningDelta,
        RuleShown,
        TextDelta,
        ToolSearch,
        Usage,
        WireText,
    )
    from ferrule.core.reply import fold
    from ferrule.run.events import (
        ConfirmationRequired,
        LoopEnded,
        LoopEvent,
        ToolFinished,
        ToolProgressed,
        ToolStarted,
    )
    from ferrule.run.machine import State
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "core.context": ["Progress"],
            "core.event": [
                *("ArgumentsDelta", "CallEnd", "CallStart", "Diagnostic", "Event", "Finish", "FinishReason"),
                *("ReasoningDelta", "RuleShown", "TextDelta", "ToolSearch", "Usage", "WireText"),
            ],
            "core.reply": ["fold"],
            "run.events": [
                *("ConfirmationRequired", "LoopEnded", "LoopEvent", "ToolFinished", "ToolProgressed", "ToolStarted")
            ],
            "run.machine": ["State"],
        },
    )

__all__ = [
    "ArgumentsDelta",
    "CallEnd",
    "CallStart",
    "ConfirmationRequired",
    "Diagnostic",
    "Event",
    "Finish",
    "FinishReason",
    "LoopEnded",
    "LoopEvent",
    "Progress",
    "ReasoningDelta",
    "RuleShown",
    "State",
    "TextDelta",
    "ToolFinished",
    "ToolProgressed",
    "ToolSearch",
    "ToolStarted",
    "Usage",
    "WireText",
    "fold",
]
