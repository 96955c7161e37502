"""Real agents on an engine that misbehaves: without a gateway, and through `ferrule serve` before and after."""
