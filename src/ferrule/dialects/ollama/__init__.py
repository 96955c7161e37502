"""Client side of Ollama's native API (/api/chat). Its other routes use the other dialects."""
