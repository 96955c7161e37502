"""Requests that no client should send, on every API: `scripts/long inputs`. None may be answered with status 500."""
