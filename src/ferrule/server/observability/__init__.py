"""Logs, metrics, traces and health of a gateway. Nothing here changes an answer."""
