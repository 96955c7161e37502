"""Check that a required call is made or fails with a code: `scripts/long required-calls`."""
