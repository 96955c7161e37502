"""Ollama's native API (/api/chat), as a client of it. What its other routes speak are the other dialects."""
