"""BFCL runs of this checkout, and our scorer beside the official one. `ferrule.bench.bfcl` does the work."""
