"""The vendors' own renderers and parsers behind one interface; our formats are checked against them.

These modules run in the interpreter that `scripts/setup-oracles` creates, where Ferrule is not installed: they import
nothing of this repository but `lab.oracles` and `lab.line_server`.
"""
