"""Things that generate: an engine continues a prompt under a rule; wire renders, binds and parses for it."""
