"""The command line: one file per command. It may use every room; no room knows it."""
