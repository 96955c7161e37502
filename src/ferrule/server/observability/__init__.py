"""What a gateway tells of itself: logs, metrics, spans, health. Nothing here changes an answer."""
