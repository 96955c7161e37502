"""Check that real SDKs read no call in a stream that the gateway did not hand on: `scripts/long sdk-streams`."""
