"""Text that models read and write. A family's format is one tree of nodes; render, parse and bind are walks over it.

Knows nothing of engines, HTTP or grammar languages.
"""
