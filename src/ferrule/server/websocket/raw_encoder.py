"""RawFrameEncoder: also sends the raw model output and the grammar, for clients that request them with `wire`.

It is separate from `FrameEncoder`, so that other clients do not pay for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.core.event import RuleShown, WireText
from ferrule.dialects.frames import server_frames as out
from ferrule.run.events import LoopEvent
from ferrule.server.websocket.encoder import FrameEncoder


@dataclass(slots=True)
class RawFrameEncoder(FrameEncoder):
    """Sends raw frames immediately, even while a call is open: they are about the text, not about its meaning."""

    def feed(self, event: LoopEvent) -> list[out.ServerFrame]:
        match event:
            case WireText(text, is_forced):
                return [out.WireFrame(text, is_forced)]
            case RuleShown():
                return [out.RuleFrame(event.format, event.target, event.grammar, event.prompt, event.triggers)]
            case _:
                return FrameEncoder.feed(self, event)
