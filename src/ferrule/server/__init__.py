"""The gateway: serves any engine over the HTTP APIs of OpenAI, Anthropic and MCP.

The rules for valid tool calls are made elsewhere (`rules`, `schema`); this package only transports and records them.
"""
