"""The WebSocket API: turns as frames in both directions, resumable by sequence number."""
