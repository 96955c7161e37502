"""Frames: what goes both ways over a WebSocket, as values and as JSON; `docs/reference/frames.md` tells each.

No socket here, and no loop: whoever has them makes the values.
"""
