"""One file per family, data only: FORMATS and their EXAMPLES. A new file is found by itself; no list names it."""
