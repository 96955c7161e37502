"""The text that models read and write. A format is one tree of nodes; render, parse and bind each walk that tree.

This package does not depend on engines, HTTP or grammar languages.
"""
