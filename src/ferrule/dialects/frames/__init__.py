"""The frames of the WebSocket API, as dataclasses and as JSON. `docs/reference/frames.md` describes each of them.

This package does no IO: the server reads and writes the sockets.
"""
