"""WireTelling: a turn as frames, with what the model was held to and wrote, for a client that asked to see it.

Apart from `Telling`, so that whoever does not ask pays nothing for it. Knows no socket, no ledger and no engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.core.event import RuleShown, WireText
from ferrule.dialects.frames import server_frames as out
from ferrule.run.events import LoopEvent
from ferrule.server.websocket.encoder import Telling


@dataclass(slots=True)
class WireTelling(Telling):
    """At once, whatever is open: these frames are about the text, and the others are about what was read out of it."""

    def feed(self, event: LoopEvent) -> list[out.Outgoing]:
        match event:
            case WireText(text, is_forced):
                return [out.Wire(text, is_forced)]
            case RuleShown():
                return [out.Rule(event.format, event.target, event.grammar, event.prompt, event.triggers)]
            case _:
                return Telling.feed(self, event)
