"""The gateway's own tools: calls, approvals and enforcement, shared by the APIs."""
