"""The command line, with one module per command. It may import every package; no package imports it."""
