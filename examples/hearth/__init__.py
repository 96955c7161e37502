"""Hearth: the tools of a small household on a bus. See README.md."""
