"""The gateway's own tools for programs and people: calls, approvals, conversations, and MCP."""
