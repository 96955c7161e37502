"""Check that long writes of coding agents arrive whole or not at all: `scripts/long whole-calls`."""
