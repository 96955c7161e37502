"""Vendors' own renderers and parsers behind one interface: what our formats are checked against.

These modules run inside the interpreter that `scripts/setup-oracles` makes, where Ferrule is not installed: they import
nothing of Ferrule outside `lab.oracles` and `lab.line_server`.
"""
