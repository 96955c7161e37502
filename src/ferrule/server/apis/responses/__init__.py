"""OpenAI's Responses API over the ledger: stored, taken up after a crash, read again from any event."""
