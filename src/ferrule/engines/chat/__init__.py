"""Chat engines: engines on providers' chat APIs. Calls are checked, and repaired if needed, after generation."""
