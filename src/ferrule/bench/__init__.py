"""Benchmarks for `ferrule bench`: BFCL questions and scores, the share of valid replies, the cost of constraints."""
