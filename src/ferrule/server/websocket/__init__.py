"""Turns over a WebSocket: frames both ways, resumed by sequence number."""
