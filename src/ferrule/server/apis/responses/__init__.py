"""OpenAI's Responses API on top of the ledger: stored, continued after a crash, readable from any event."""
