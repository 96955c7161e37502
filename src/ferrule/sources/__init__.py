"""Sources of tools: Python functions, MCP servers and workers on NATS."""
