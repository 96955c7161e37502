"""Check that clients with their default retries cause each effect at most once: `scripts/long retries`."""
